#!lua flags=allow-oom
-- remove_type: removes a type without jobs. Empty lanes leave its orders first.
-- KEYS[1] the partition.
-- ARGV[1] time, [2] type.
-- Replies 'removed', 'unknown', 'again' if its orders have more lanes than one step removes, or
-- its number of jobs.
--@include base
--@include rate
--@include lane
--@include write
read_partition({'epochs'})
local name, left = ARGV[2], REMOVE_TYPE_LANES_MAX
if call('SISMEMBER', prefix .. 'types', name) == 0 then return 'unknown' end
local state = type_state(name)
if state.jobs > 0 then return text(state.jobs) end

local function empty_order(order)
  local members = left > 0 and call('ZRANGE', order.key, 0, left - 1) or {}
  if #members == 0 and order.active == 0 then return end
  for _, member in ipairs(members) do
    local _, lane = group_state(sub(member, 18), order.place)
    lane.standing, lane.tag, lane.epoch, lane.remainder, lane.park = 'I', 0, 0, 0, 0
  end
  if #members > 0 then call('ZREM', order.key, unpack(members)) end
  -- Counted, not subtracted: a count that is too high would require further steps forever.
  left, order.active, order.touched = left - #members, call('ZCARD', order.key), true
  if order.active == 0 then
    order.virtual_time, order.epoch = 0, order.epoch + 1
  end
end

for level = 0, 2 do empty_order(state[level]) end
if is_active(state) then
  write_all()
  return 'again'
end
partition.epochs = max(partition.epochs, state[0].epoch, state[1].epoch, state[2].epoch)
types[name] = nil
write_all()
call('SREM', prefix .. 'types', name)
call('DEL', state.key, prefix .. 'wake:' .. name)
return 'removed'
