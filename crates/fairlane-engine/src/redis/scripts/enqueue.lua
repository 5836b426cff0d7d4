#!lua
-- enqueue: adds jobs, each at most once. Refused as a whole, before any effect, when memory is full.
-- KEYS[1] the partition.
-- ARGV[1] time, then runs of jobs alike: group, place (level:type), cost, delay in µs, jobs, then per job its id and
-- payload.
-- A row is the time in base 36, level:type:cost (nothing for 1):payload.
-- Replies a letter per job: c created, e exists, g group full, w whole full, t too many types.
--@include base
--@include rate
--@include lane
--@include write
--@include order
--@include waiting
read_partition({'sequence', 'backlog', 'group_backlog_max', 'whole_backlog_max'})
local receipts, answered = {}, 0

-- The time in base 36, which is short: a row has it for as long as its job waits.
local function short_time()
  local letters, rest = {}, now
  for index = 10, 1, -1 do
    local digit = rest % 36
    letters[index], rest = digit < 10 and 48 + digit or 87 + digit, (rest - digit) / 36
  end
  return string.char(unpack(letters))
end
local stamp = short_time()

-- Whether a job of this type may exist: 1 it is known, 0 there is room for one more, nil there is none.
local function has_type(name)
  if call('SISMEMBER', prefix .. 'types', name) == 1 then return 1 end
  if call('SCARD', prefix .. 'types') < TYPES_MAX then return 0 end
end

-- The letter for a job that there is no room for.
local function refused(group, id)
  if call('HEXISTS', rows_key(group.name), id) == 1 then return 'e' end
  if partition.backlog >= partition.whole_backlog_max then return 'w' end
  if group.backlog >= partition.group_backlog_max then return 'g' end
  return 't'
end

local function place_jobs(group, lane, delay_us, elements)
  if delay_us ~= '0' then
    for _, element in ipairs(elements) do wait_until(now + delay_us, lane.place, group.name, element) end
  else
    call('RPUSH', prefix .. 'group:' .. group.name .. ':jobs:' .. lane.place, unpack(elements))
    lane_has_jobs(group, lane)
  end
end

-- Adds `jobs` alike, from argument `at` on; gives the argument after them.
local function enqueue_run(at, group, lane, cost, delay_us, jobs)
  local head, elements, created = stamp .. lane.place .. ':' .. (cost == '1' and '' or cost) .. ':', {}, 0
  local mark, known, rows = cost == '1' and '' or ':' .. cost .. ':', has_type(lane.type), rows_key(group.name)
  local room = min(partition.whole_backlog_max - partition.backlog, partition.group_backlog_max - group.backlog)
  for index = at, at + 2 * jobs - 1, 2 do
    local id, receipt = ARGV[index], 'c'
    if not known or created >= room then
      receipt = 'refused'
    elseif call('HSETNX', rows, id, head .. ARGV[index + 1]) == 1 then
      created = created + 1
      elements[created] = mark == '' and id or mark .. id
    else
      receipt = 'e'
    end
    answered = answered + 1
    receipts[answered] = receipt
  end
  group.backlog, partition.backlog = group.backlog + created, partition.backlog + created
  if created > 0 then
    if known == 0 then call('SADD', prefix .. 'types', lane.type) end
    place_jobs(group, lane, delay_us, elements)
  end
  for index = 1, jobs do
    local slot = answered - jobs + index
    if receipts[slot] == 'refused' then receipts[slot] = refused(group, ARGV[at + 2 * index - 2]) end
  end
  return at + 2 * jobs
end

local at = 2
while ARGV[at] do
  local name, place, cost, delay_us, jobs = unpack(ARGV, at, at + 4)
  local group, lane = group_state(name, place)
  at = enqueue_run(at + 5, group, lane, cost, delay_us, tonumber(jobs))
end
write_all()
return table.concat(receipts)
