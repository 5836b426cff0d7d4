#!lua flags=allow-oom
-- sweep: the housekeeping of the queue. Removes unrunnable jobs from the heads of lanes, ends
-- dropped jobs that wait for a time, returns jobs of resumed bulk actions to their lanes, fails
-- overdue bulk actions, removes what is past its retention, and forgets idle groups.
-- KEYS[1] the partition.
-- ARGV[1] time, [2] about how many jobs.
-- Replies {jobs dropped, jobs resumed, jobs removed, bulk actions overdue, whether there
-- may be more (0 1)}.
--@include base
--@include rate
--@include lane
--@include write
--@include order
--@include waiting
--@include bytes
--@include bulk
--@include finish_job
--@include purge
--@include idle
read_partition({
  'sequence', 'backlog', 'classic', 'alpha', 'completed', 'stored_bytes', 'completed_kept_max', 'completed_retention_ms',
  'failed_kept_max', 'failed_retention_ms', 'bulk_retention_ms',
})
local left, dropped, resumed, removed, overdue = tonumber(ARGV[2]), 0, 0, 0, 0
local sweeping, deadlines, finished = prefix .. 'sweeping', prefix .. 'bulk-deadlines', prefix .. 'finished-bulks'
local clearing = prefix .. 'clearing'

local function fail_overdue()
  for _, member in ipairs(call('ZRANGE', deadlines, '-inf', text(now), 'BYSCORE', 'LIMIT', 0, SWEEP_BULKS_MAX)) do
    local bulk = bulk_state(text(tonumber(member)))
    bulk.cause, overdue = 'deadline', overdue + 1
    drop_bulk(bulk, 'FAILED')
  end
end

--@include clear

local function drop_held(member)
  local group, lane, id = placed(member)
  return take_out(group, lane.place, id)
end

-- Ends dropped jobs that wait for a time.
local function drop_waiting(bulk)
  if left == 0 then return end
  for _, member in ipairs(call('ZRANGE', bulk.key .. ':waiting', 0, left - 1)) do
    local group, lane, id, number = placed(member)
    if call('ZREM', prefix .. 'non-ready-queue', member) == 1 then
      waits_no_more(group, number, member)
      take_out(group, lane.place, id)
    else
      call('ZREM', bulk.key .. ':waiting', member)
    end
    left = left - 1
  end
end

local function bring_back(member)
  local group, lane, id = placed(member)
  return_to_lane(group, lane, id, 'RPUSH')
  return true
end

-- Performs the pending work of one bulk action; it is scheduled again if work remains.
local function sweep_bulk(bulk)
  local before, held, group = left, bulk.key .. ':held', group_state(match(bulk.name, '^([^:]+)'))
  if bulk.course == 'hold' then return end
  if bulk.course == 'run' then
    local emptied = sweep_list(held, bring_back)
    resumed = resumed + before - left
    if emptied then return end
  else
    local emptied = sweep_list(held, drop_held)
    drop_waiting(bulk)
    clear_heads(group)
    if left > 0 or emptied and bulk_ended(bulk) == bulk.total then return end
  end
  call('RPUSH', sweeping, bulk.number)
end

-- Removes a job that has ended and still belongs to the bulk action.
local function remove_ended(rows, group_name, id, number)
  local row, run = call('HGET', rows, id), call('HGET', rows, ':' .. id)
  if not row or not run or sub(run, 1, 1) == 'N' then return end
  local _, of, cancelled = read_row(row)
  if of ~= number or cancelled then return end
  call('ZREM', prefix .. 'failed', group_name .. ':' .. id)
  subtract_bytes(group_name, job_bytes(row, run))
  call('HDEL', rows, id, ':' .. id)
  if sub(run, 1, 1) == 'F' then count_jobs(match(run, '^:%d:([^:]+)', 34), -1) end
  removed = removed + 1
end

-- Removes bulk actions beyond their retention: first their jobs, a chunk at a time, and
-- then themselves.
local function remove_outlived()
  while left > 0 do
    local first = call('ZRANGE', finished, 0, 0, 'WITHSCORES')
    local member, finished_at = first[1], first[2]
    if not member or finished_at + partition.bulk_retention_ms * 1000 > now then return end
    local bulk = bulk_state(text(tonumber(member)))
    local group_name, name = match(bulk.name, '^([^:]+):(.+)$')
    local chunk = call('LPOP', bulk.key .. ':ended')
    if chunk then
      left = max(left - match(chunk, '^%d+:(%d+)'), 0)
      for id in string.gmatch(chunk, '\n([^\n]+)') do remove_ended(rows_key(group_name), group_name, id, bulk.number) end
    else
      if call('EXISTS', bulk.key .. ':held', bulk.key .. ':waiting') > 0 then return end
      call('ZREM', finished, member)
      take_no_more(bulk)
      call('ZREM', prefix .. 'group:' .. group_name .. ':bulks', name)
      subtract_bytes(group_name, call('HSTRLEN', bulk.key, 'payload') + call('HSTRLEN', bulk.key, 'summary'))
      watch_idle(group_name)
      call('DEL', bulk.key)
      bulk.gone, bulks[bulk.number], left = true, false, left - 1
    end
  end
end

fail_overdue()
-- Bulk actions and lanes each have their own half of the budget.
local for_lanes = call('EXISTS', clearing) == 1 and floor(left / 2) or 0
left = left - for_lanes
for _ = 1, min(SWEEP_BULKS_MAX, call('LLEN', sweeping)) do
  if left == 0 then break end
  local bulk = bulk_state(call('LPOP', sweeping))
  if bulk then sweep_bulk(bulk) end
end
left = left + for_lanes
clear_lanes()
record_ended()
remove_outlived()
purge()
local forgotten = forget_idle_groups()
write_all()
local more = left == 0 or overdue == SWEEP_BULKS_MAX or forgotten == SWEEP_GROUPS_MAX or call('EXISTS', sweeping, clearing) > 0
return {dropped, resumed, removed + purged, overdue, more and 1 or 0}
