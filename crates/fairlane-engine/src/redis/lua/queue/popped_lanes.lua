-- A lease pops lanes a few at a time, and puts them back together: those that it served, and those it
-- did not reach. A lane that was put back is behind all lanes with the same tag.

-- Puts a lane back when the lease has ended, or earlier if its turn may come again.
function queue.return_to_order(cx, order, group, lane)
  local back, count = order.back, order.back_count
  local sequence = cx.partition.sequence + 1
  cx.partition.sequence, lane.park = sequence, 0
  back[count + 1], back[count + 2] = text(lane.tag), format('%016d:%s', sequence, group.name)
  order.back_count = count + 2
  if lane.tag < order.back_tag then order.back_tag = lane.tag end
end

-- Writes the lanes that a lease has popped and that stay in order.
function queue.restore_order(order)
  local back, count, popped = order.back, order.back_count, order.popped
  for index = order.popped_used + 1, #popped, 2 do
    back[count + 1], back[count + 2] = popped[index + 1], popped[index]
    count = count + 2
  end
  if count > 0 then queue.add_to_order(order, unpack(back, 1, count)) end
  order.popped, order.popped_used, order.back_count, order.back_tag = {}, 0, 0, math.huge
end

-- Charges a lane, its order and its level for jobs that it was served.
function queue.charge_lane(state, group, lane, jobs, cost)
  local order, tag, units = state[lane.level], lane.tag, cost * UNITS + lane.remainder
  if tag > order.virtual_time then order.virtual_time = tag end
  order.pool = order.pool + jobs
  if order.pool > POOL_FULL then order.pool = POOL_FULL end
  if units < 0 then
    lane.remainder = units
  else
    local remainder = units % group.weight
    lane.tag, lane.remainder = tag + (units - remainder) / group.weight, remainder
  end
  if order.tag > state.virtual_time then state.virtual_time = order.tag end
  order.tag, order.touched = order.tag + cost * order.units, true
end

-- Takes the first lane of an order that has lanes; returns its group's name and its tag.
function queue.next_lane(cx, order)
  local used = order.popped_used + 2
  local tag = tonumber(order.popped[used] or 'none')
  if not tag or tag > order.back_tag then
    queue.restore_order(order)
    order.popped = call('ZPOPMIN', order.key, min(ceil(cx.left / QUANTUM), LEASE_LANES_POPPED))
    used, tag = 2, tonumber(order.popped[2])
  end
  order.popped_used = used
  return sub(order.popped[used - 1], 18), tag
end
