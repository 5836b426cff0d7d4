#!lua flags=allow-oom
-- sweep: the janitor's step. Dropped jobs leave the heads of their lanes, jobs of resumed bulk actions go back to
-- theirs, overdue bulk actions fail, and what is outlived is removed.
-- KEYS[1] the partition.
-- ARGV[1] time, [2] about how many jobs.
-- Replies {jobs dropped, jobs resumed, jobs removed, bulk actions overdue, whether there may be more (0 1)}.
--@include base
--@include rate
--@include lane
--@include write
--@include order
--@include waiting
--@include bulk
--@include ending
--@include purge
read_partition({
  'sequence', 'backlog', 'classic', 'alpha', 'completed', 'completed_kept_max', 'completed_retention_ms',
  'failed_kept_max', 'failed_retention_ms', 'bulk_retention_ms',
})
local left, dropped, resumed, removed, overdue = tonumber(ARGV[2]), 0, 0, 0, 0
local sweeping, deadlines, finished = prefix .. 'sweeping', prefix .. 'bulk-deadlines', prefix .. 'finished-bulks'

local function fail_overdue()
  for _, member in ipairs(call('ZRANGE', deadlines, '-inf', text(now), 'BYSCORE', 'LIMIT', 0, SWEEP_BULKS_MAX)) do
    local bulk = bulk_state(text(tonumber(member)))
    bulk.cause, overdue = 'deadline', overdue + 1
    drop_bulk(bulk, 'FAILED')
  end
end

-- Lets `take` have up to `left` members off the head of a list, until it does not want one. True if none is left.
local function sweep_list(key, take)
  while left > 0 do
    local members, used = call('LRANGE', key, 0, min(left, 100) - 1), 0
    while used < #members and take(members[used + 1]) do used = used + 1 end
    if used > 0 then call('LTRIM', key, used, -1) end
    left = left - used
    if used < #members or #members == 0 then break end
  end
  return call('EXISTS', key) == 0
end

-- Drops a job that is not to run; false if it is.
local function drop(group, place, id)
  local row = call('HGET', rows_key(group.name), id)
  if not row then return true end
  local cost, number, cancelled = read_row(row)
  local fate = fate_of(number, cancelled)
  if fate ~= 'drop' and fate ~= 'cancelled' then return false end
  step_over(group, place, id, number, text(cost), fate, row)
  return true
end

local function drop_held(member)
  local group, lane, id = placed(member)
  return drop(group, lane.place, id)
end

local function bring_back(member)
  local group, lane, id = placed(member)
  return_to_lane(group, lane, id, 'RPUSH')
  return true
end

-- Takes jobs that are not to run off the heads of a group's lanes. A lane that is empty then stays where it stands
-- until the next lease meets it.
local function drop_heads(group)
  for _, place in ipairs(places_of(group)) do
    local _, lane = group_state(group.name, place)
    local part = prefix .. 'group:' .. group.name
    local function drop_id(id)
      return drop(group, place, id)
    end
    if lane.returned == '1' and sweep_list(part .. ':returned:' .. place, drop_id) then lane.returned = '0' end
    if lane.returned == '0' then sweep_list(part .. ':jobs:' .. place, drop_id) end
  end
end

-- Does what is left to do for one bulk action; it comes again if that was not all.
local function sweep_bulk(bulk)
  local before, held = left, bulk.key .. ':held'
  if bulk.course == 'hold' then return end
  if bulk.course == 'run' then
    local emptied = sweep_list(held, bring_back)
    resumed = resumed + before - left
    if emptied then return end
  else
    local emptied = sweep_list(held, drop_held)
    drop_heads(group_state(match(bulk.name, '^([^:]+)')))
    dropped = dropped + before - left
    if emptied and bulk_ended(bulk) == bulk.total then return end
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
  call('HDEL', rows, id, ':' .. id)
  removed = removed + 1
end

-- Removes the jobs of bulk actions that ended long ago, a chunk at a time, and then the bulk actions.
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
      if call('EXISTS', bulk.key .. ':held') == 1 then return end
      call('ZREM', finished, member)
      take_no_more(bulk)
      call('ZREM', prefix .. 'group:' .. group_name .. ':bulks', name)
      call('DEL', bulk.key)
      bulk.gone, bulks[bulk.number], left = true, false, left - 1
    end
  end
end

fail_overdue()
for _ = 1, min(SWEEP_BULKS_MAX, call('LLEN', sweeping)) do
  if left == 0 then break end
  local bulk = bulk_state(call('LPOP', sweeping))
  if bulk then sweep_bulk(bulk) end
end
record_ended()
remove_outlived()
purge()
write_all()
local more = left == 0 or overdue == SWEEP_BULKS_MAX
return {dropped, resumed, removed + purged, overdue, more and 1 or 0}
