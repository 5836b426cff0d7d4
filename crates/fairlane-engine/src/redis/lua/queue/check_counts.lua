-- The checks of counts: backlogs, types, bulk actions, leases and the queue.

function queue.check_backlog(cx, name)
  local group, waiting, listed, bytes = queue.group_state(cx, name), queue.waiting_of(cx, name),
    queue.listed_of(cx, name), queue.bytes_of(cx, name)
  if queue.is_put_off(cx) or not waiting or not listed then return end
  if group.backlog ~= waiting + listed then
    queue.report(cx, 'backlog', '', group.backlog, waiting + listed, function()
      group.backlog = waiting + listed
    end)
  end
  local known = queue.record(group)
  if known.waiting ~= waiting then
    queue.report(cx, 'waiting', '', known.waiting, waiting, function() known.waiting = waiting end)
  end
  if bytes and group.stored_bytes ~= bytes then
    queue.report(cx, 'stored-bytes', '', group.stored_bytes, bytes, function() group.stored_bytes = bytes end)
  end
end

function queue.check_type(cx, name)
  local state, in_flight = queue.type_state(cx, name), queue.leased_of_type(cx, name)
  if queue.is_put_off(cx) then return end
  for level = 0, 2 do
    local order = state[level]
    if order.virtual_time >= VIRTUAL_TIME_HIGH then
      queue.report(cx, 'virtual-time', 'level ' .. match(order.key, 'fair%-queue:(%a+):'), 0, 0)
    end
    local counted = call('ZCARD', order.key)
    if counted ~= order.active then
      queue.report(cx, 'active', order.place, order.active, counted, function()
        queue.recount_order(state, level)
      end)
    end
  end
  if state.virtual_time >= VIRTUAL_TIME_HIGH then queue.report(cx, 'virtual-time', 'the levels', 0, 0) end
  if in_flight and in_flight ~= state.in_flight then
    queue.report(cx, 'in-flight', '', state.in_flight, in_flight, function()
      state.in_flight = in_flight
      queue.push_token(cx, name)
    end)
  end
end

function queue.check_bulk(cx, name)
  local number = queue.bulk_number(cx, name.group, name.id)
  local bulk = number and queue.bulk_state(cx, number)
  local unended = bulk and queue.unended_of(cx, name.group, number)
  if not bulk or queue.is_put_off(cx) then return end
  local total = unended and queue.bulk_ended(bulk) + unended or bulk.total
  local takeable = call('ZSCORE', cx.prefix .. 'aggregating', queue.padded_number(bulk)) ~= false
  if queue.is_to_be_taken(bulk) ~= takeable then
    queue.report(cx, takeable and 'stray-take' or 'not-taken', '', 0, 0, function()
      queue.mend_taking(cx, bulk)
    end)
  end
  if total ~= bulk.total then
    queue.report(cx, 'total', '', bulk.total, total, function()
      bulk.total = total
      queue.review_later(cx, bulk)
      queue.mend_taking(cx, bulk)
    end)
  end
end

function queue.check_lease(cx, fence)
  local batch = format('%016d', fence)
  queue.afford(cx, 0, call('HSTRLEN', cx.prefix .. 'lease:' .. batch, 'names'))
  if queue.is_put_off(cx) then return end
  local left = call('HGET', cx.prefix .. 'lease:' .. batch, 'left')
  if not left and call('ZSCORE', cx.prefix .. 'deadlines', batch) then
    queue.report(cx, 'no-batch', '', 0, 0, function() call('ZREM', cx.prefix .. 'deadlines', batch) end)
  elseif left and tonumber(left) ~= queue.count_left(cx, batch) then
    queue.report(cx, 'left', '', tonumber(left), queue.count_left(cx, batch), function()
      queue.mend_batch(cx, batch)
    end)
  end
end

function queue.check_queue(cx)
  local key, backlog = cx.prefix .. 'active-groups', 0
  local completed = queue.count_chunks(cx, cx.prefix .. 'completed')
  local counted, bytes = queue.afford(cx, call('ZCARD', key)), queue.bytes_of_groups(cx)
  if queue.is_put_off(cx) then return end
  for _, name in ipairs(counted and call('ZRANGE', key, 0, -1) or {}) do
    backlog = backlog + queue.stored_backlog(cx, name)
  end
  if counted and backlog ~= cx.partition.backlog then
    queue.report(cx, 'backlog', '', cx.partition.backlog, backlog, function()
      cx.partition.backlog = backlog
    end)
  end
  if bytes and bytes ~= cx.partition.stored_bytes then
    queue.report(cx, 'stored-bytes', '', cx.partition.stored_bytes, bytes, function()
      cx.partition.stored_bytes = bytes
    end)
  end
  if completed and completed ~= cx.partition.completed then
    queue.report(cx, 'completed', '', cx.partition.completed, completed, function()
      cx.partition.completed = completed
    end)
  end
end
