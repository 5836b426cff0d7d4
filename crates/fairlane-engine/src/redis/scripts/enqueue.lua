#!lua
-- enqueue: adds jobs, each at most once. Refused as a whole, before any effect, when memory is full.
-- KEYS[1] the partition.
-- ARGV[1] time, then runs of jobs alike: group, place (level:type), cost, delay in µs, jobs, then per job its name
-- (group:id) and payload.
-- Replies a letter per job: c created, e exists, g group full, w whole full, t too many types.
--@include base
--@include rate
--@include lane
--@include write
--@include order
--@include waiting
read_partition({'sequence', 'backlog', 'group_backlog_max', 'whole_backlog_max'})
local job_prefix, stamp, receipts, known, pushes = prefix .. 'job:', format('%016d:', now), {}, {}, {}

-- Whether a job of this type may exist: it is known, or there is room for one more.
local function has_type(name)
  if not known[name] then
    known[name] = call('SISMEMBER', prefix .. 'types', name) == 1
    if not known[name] and call('SCARD', prefix .. 'types') >= TYPES_MAX then return false end
  end
  return true
end

local function refusal(group, lane)
  if partition.backlog >= partition.whole_backlog_max then return 'w' end
  if group.backlog >= partition.group_backlog_max then return 'g' end
  if not known[lane.type] and not has_type(lane.type) then return 't' end
end

local function place_job(group, lane, element, delay_us)
  group.backlog, partition.backlog = group.backlog + 1, partition.backlog + 1
  if delay_us ~= '0' then return wait_until(now + delay_us, lane.place, element) end
  local pushed = pushes[lane]
  if not pushed then
    pushed = {prefix .. 'group:' .. group.name .. ':jobs:' .. lane.place}
    pushes[lane] = pushed
    lane_has_jobs(group, lane)
  end
  pushed[#pushed + 1] = element
end

-- Adds `jobs` alike, from argument `at` on; gives the argument after them.
local function enqueue_run(at, group, lane, cost, delay_us, jobs)
  local head = stamp .. lane.place .. ':' .. cost .. ':'
  for index = at, at + 2 * jobs - 1, 2 do
    local name, receipt = ARGV[index], refusal(group, lane)
    if receipt then
      if call('EXISTS', job_prefix .. name) == 1 then receipt = 'e' end
    elseif call('SETNX', job_prefix .. name, head .. ARGV[index + 1]) == 0 then
      receipt = 'e'
    else
      receipt = 'c'
      if not known[lane.type] then
        call('SADD', prefix .. 'types', lane.type)
        known[lane.type] = true
      end
      place_job(group, lane, cost == '1' and name or ':' .. cost .. ':' .. name, delay_us)
    end
    receipts[#receipts + 1] = receipt
  end
  return at + 2 * jobs
end

local at = 2
while ARGV[at] do
  local name, place, cost, delay_us, jobs = unpack(ARGV, at, at + 4)
  local group, lane = group_state(name, place)
  at = enqueue_run(at + 5, group, lane, cost, delay_us, tonumber(jobs))
end
for _, pushed in pairs(pushes) do call('RPUSH', unpack(pushed)) end
write_all()
return table.concat(receipts)
