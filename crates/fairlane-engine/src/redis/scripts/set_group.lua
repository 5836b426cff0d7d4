#!lua flags=allow-oom
-- set_group: weight, rate, concurrency and pause of a group, effective on its backlog at once.
-- KEYS[1] the partition.
-- ARGV[1] time, [2] group, [3] weight, [4] paused, [5] concurrency (0 none), [6] rate (0:0:0 none); '' leaves as is.
-- Replies the limits that hold now: weight:paused:concurrency:count:period_ms:burst.
--@include base
--@include rate
--@include lane
--@include write
--@include order
read_partition({'sequence'})
local group = group_state(ARGV[2])
local weight, paused, concurrency, rate = match(group.limits or '1:0:0:0:0:0', '^(%d+):(%d):(%d+):(.*)$')
local function patched(index, value)
  return ARGV[index] == '' and value or ARGV[index]
end
local new_weight, new_rate = patched(3, weight), patched(6, rate)
local limits = new_weight .. ':' .. patched(4, paused) .. ':' .. patched(5, concurrency) .. ':' .. new_rate
if limits == (group.limits or '1:0:0:0:0:0') then return limits end

group.bucket = changed_bucket(group.bucket or '0:0', rate, new_rate)
group.limits, group.weight = limits, tonumber(new_weight)
if new_weight ~= weight then
  for _, place in ipairs(places_of(group)) do
    local _, lane = group_state(group.name, place)
    lane.remainder = min(lane.remainder, 0)
  end
end
wake_lanes_of(group, 'RSP')
write_all()
return limits
