#!lua flags=allow-oom
-- remove_type: removes a type without jobs. Empty lanes leave its orders first.
-- Key: the partition.
local FIELDS = {'epochs'}

local function empty_order(cx, order)
  local members = cx.left > 0 and call('ZRANGE', order.key, 0, cx.left - 1) or {}
  if #members == 0 and order.active == 0 then return end
  for _, member in ipairs(members) do
    local _, lane = queue.group_state(cx, sub(member, 18), order.place)
    lane.standing, lane.tag, lane.epoch, lane.remainder, lane.park = 'I', 0, 0, 0, 0
  end
  if #members > 0 then call('ZREM', order.key, unpack(members)) end
  -- Counted, not subtracted: a count that is too high would require further steps forever.
  cx.left, order.active, order.touched = cx.left - #members, call('ZCARD', order.key), true
  if order.active == 0 then
    order.virtual_time, order.epoch = 0, order.epoch + 1
  end
end

function queue.ops.remove_type(cx, command)
  kernel.read_partition(cx, FIELDS)
  local name = command.type_id
  cx.left = REMOVE_TYPE_LANES_MAX
  if call('SISMEMBER', cx.prefix .. 'types', name) == 0 then return 'Unknown' end
  local state = queue.type_state(cx, name)
  if state.jobs > 0 then return {HasJobs = {jobs = state.jobs}} end

  for level = 0, 2 do empty_order(cx, state[level]) end
  if queue.is_active(state) then
    queue.write_all(cx)
    return 'Again'
  end
  cx.partition.epochs = max(cx.partition.epochs, state[0].epoch, state[1].epoch, state[2].epoch)
  cx.types[name] = nil
  queue.write_all(cx)
  call('SREM', cx.prefix .. 'types', name)
  call('DEL', state.key, cx.prefix .. 'wake:' .. name)
  return 'Removed'
end
