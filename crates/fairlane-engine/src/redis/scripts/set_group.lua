#!lua flags=allow-oom
-- set_group: changes weight, rate, concurrency and pause of a group, with immediate
-- effect on its backlog.
-- KEYS[1] the partition.
-- ARGV[1] time, [2] group, [3] weight, [4] paused, [5] concurrency (0 none), [6] rate (0:0:0 none),
-- [7] base priority; '' leaves as is. [8] 1 forgets its congestion record.
-- Replies the limits after the change: weight:paused:concurrency:base
-- priority:count:period_ms:burst.
--@include base
--@include rate
--@include lane
--@include write
--@include order
read_partition({'sequence', 'classic', 'alpha'})
local group, none = group_state(ARGV[2]), '1:0:0:0:0:0:0'
local weight, paused, concurrency, base_priority, rate = match(group.limits or none, '^(%d+):(%d):(%d+):(-?%d+):(.*)$')
local function patched(index, value)
  return ARGV[index] == '' and value or ARGV[index]
end
if ARGV[8] == '1' then
  local known = record(group)
  if known.noted > 0 then call('DEL', history_key(group)) end
  known.throttles, known.since, known.noted, known.backoff = 0, group.done, 0, 0
end
local new_weight, new_rate, new_base = patched(3, weight), patched(6, rate), patched(7, base_priority)
local limits = table.concat({new_weight, patched(4, paused), patched(5, concurrency), new_base, new_rate}, ':')
if limits == (group.limits or none) then
  write_all()
  return limits
end

group.bucket = changed_bucket(group.bucket or '0:0', rate, new_rate)
group.limits, group.weight, group.base_priority = limits, tonumber(new_weight), tonumber(new_base)
if limits == none and not group.was_active then watch_idle(group.name) end
if new_weight ~= weight then
  for _, place in ipairs(places_of(group)) do
    local _, lane = group_state(group.name, place)
    lane.remainder = min(lane.remainder, 0)
  end
end
-- Lanes in order by score move by the difference and keep their time stamp.
local difference = tonumber(new_base) - tonumber(base_priority)
if partition.classic == 1 and difference ~= 0 then
  for _, place in ipairs(places_of(group)) do
    local _, lane = group_state(group.name, place)
    local key, member = type_state(lane.type)[lane.level].key, format('%016d:%s', lane.park, group.name)
    if lane.standing == 'A' then call('ZADD', key, text(call('ZSCORE', key, member) - difference), member) end
  end
end
wake_lanes_of(group, 'RSP')
write_all()
return limits
