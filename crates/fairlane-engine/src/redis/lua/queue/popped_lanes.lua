-- A lease pops lanes a few at a time, and puts them back together: those that it served, and those it
-- did not reach. A lane that was put back is behind all lanes with the same tag.

-- Puts a lane back when the lease has ended, or earlier if its turn may come again.
function queue.return_to_order(cx, order, group, lane)
  local back, count = order.back, order.back_count
  cx.partition.sequence = cx.partition.sequence + 1
  lane.park = 0
  back[count + 1], back[count + 2] = text(lane.tag), format('%016d:%s', cx.partition.sequence, group.name)
  order.back_count, order.back_tag = count + 2, min(order.back_tag, lane.tag)
end

-- Writes the lanes that a lease has popped and that stay in order.
function queue.restore_order(order)
  local back, count, popped = order.back, order.back_count, order.popped
  for index = order.popped_used + 1, #popped, 2 do
    back[count + 1], back[count + 2] = popped[index + 1], popped[index]
    count = count + 2
  end
  if count > 0 then call('ZADD', order.key, unpack(back, 1, count)) end
  order.popped, order.popped_used, order.back_count, order.back_tag = {}, 0, 0, math.huge
end

-- Takes the first lane of an order that has lanes; returns its group's name and its tag.
function queue.next_lane(cx, order)
  local tag = tonumber(order.popped[order.popped_used + 2] or math.huge)
  if tag > order.back_tag or tag == math.huge then
    queue.restore_order(order)
    order.popped = call('ZPOPMIN', order.key, min(ceil(cx.left / QUANTUM), LEASE_LANES_POPPED))
    tag = tonumber(order.popped[2])
  end
  order.popped_used = order.popped_used + 2
  return sub(order.popped[order.popped_used - 1], 18), tag
end
