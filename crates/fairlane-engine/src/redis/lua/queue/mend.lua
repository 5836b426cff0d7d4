-- Findings and repairs.

-- Records a fault of the current suspect and repairs it on request.
function queue.report(cx, fault, detail, stored, counted, repair)
  local repairs = cx.mending and repair
  cx.findings[#cx.findings + 1] = {
    suspect = cx.suspect, fault = fault, detail = detail, stored = stored, counted = counted,
    repaired = repairs ~= nil and repairs ~= false,
  }
  if repairs then repair() end
end

-- Whether to check the current suspect in another step, with a budget that no other has used.
function queue.is_put_off(cx)
  return cx.too_large and cx.suspect_index > 1
end

-- Makes a bulk action available for aggregation exactly if it is ready for it. A worker that has
-- leased one that is not ready loses its lease.
function queue.mend_taking(cx, bulk)
  if queue.is_to_be_taken(bulk) then return queue.hand_out(cx, bulk) end
  if queue.take_no_more(cx, bulk) == 1 and bulk.aggregated == 0 then bulk.fence = 0 end
end

-- Recounts the lanes of an order; resets an empty order.
function queue.recount_order(state, level)
  local order = state[level]
  order.active, order.touched = call('ZCARD', order.key), true
  if order.active == 0 then
    order.virtual_time, order.epoch = 0, order.epoch + 1
  end
  if not queue.is_active(state) then
    state.virtual_time = 0
    for other = 0, 2 do state[other].tag, state[other].touched = 0, true end
  end
end

-- Removes a lane from wherever it is and, if it has jobs, inserts it into its order.
function queue.mend_lane(cx, group, lane, members, has_jobs)
  local state = queue.type_state(cx, lane.type)
  local order = state[lane.level]
  for _, member in ipairs(members or {}) do
    local tag = tonumber(call('ZSCORE', order.key, member))
    if tag and (lane.epoch ~= order.epoch or tag < lane.tag) then lane.tag, lane.epoch = tag, order.epoch end
    call('ZREM', order.key, member)
  end
  call('ZREM', cx.prefix .. 'parked', lane.place .. ':' .. group.name)
  call('ZREM', cx.prefix .. 'clearing', lane.place .. ':' .. group.name)
  if lane.standing == 'S' then group.seat_parked = group.seat_parked - 1 end
  lane.standing, lane.park = 'I', 0
  lane.returned = tostring(call('EXISTS', cx.prefix .. 'group:' .. group.name .. ':returned:' .. lane.place))
  if has_jobs then
    queue.enter_order(cx, group, lane, false)
    queue.push_token(cx, lane.type)
  end
  queue.recount_order(state, lane.level)
end

-- Counts the jobs of a batch that are still leased.
function queue.count_left(cx, batch)
  local names, left = {}, 0
  for name in string.gmatch(call('HGET', cx.prefix .. 'lease:' .. batch, 'names') or '', '[^\n]+') do
    names[#names + 1] = name
  end
  for _, held in ipairs(names[1] and call('HMGET', cx.prefix .. 'in-flight', unpack(names)) or {}) do
    if held and (sub(held, 1, 16) == batch or sub(held, 17, 32) == batch) then left = left + 1 end
  end
  return left
end

function queue.mend_batch(cx, batch)
  local key, left = cx.prefix .. 'lease:' .. batch, queue.count_left(cx, batch)
  if left > 0 then return call('HSET', key, 'left', left) end
  call('DEL', key)
  call('ZREM', cx.prefix .. 'deadlines', batch)
end

-- Removes a job from a place. Counts are not changed: the recount shows whether they included it.
function queue.take_from(cx, job, spot)
  if spot.word == 'in flight' then
    local held = call('HGET', spot.key, spot.member)
    call('HDEL', spot.key, spot.member)
    for _, batch in ipairs({sub(held, 1, 16), sub(held, 17, 32)}) do
      if call('EXISTS', cx.prefix .. 'lease:' .. batch) == 1 then queue.mend_batch(cx, batch) end
    end
  elseif spot.word == 'waiting' then
    call('ZREM', spot.key, spot.member)
    local number = match(spot.member, '^%d:[^:]+:[^:]+:[^:]+:(%d+)$')
    if number then call('ZREM', cx.prefix .. 'bulk:' .. number .. ':waiting', spot.member) end
  else
    call('LREM', spot.key, -1, spot.member)
    local _, lane = queue.group_state(cx, job.group, spot.place)
    lane.returned = tostring(call('EXISTS', cx.prefix .. 'group:' .. job.group .. ':returned:' .. spot.place))
  end
end

-- Gives a leased job a batch of its own with a deadline, as if it were extended now.
-- Its fence stays.
function queue.give_deadline(cx, job)
  local key, held = cx.prefix .. 'in-flight', call('HGET', cx.prefix .. 'in-flight', job.name)
  cx.partition.fence = max(cx.partition.fence + 1, cx.now)
  local before, batch = sub(held, 17, 32), format('%016d', cx.partition.fence)
  call('HSET', key, job.name, sub(held, 1, 16) .. batch .. sub(held, 33))
  call('HSET', cx.prefix .. 'lease:' .. batch, 'left', 1, 'names', job.name)
  call('ZADD', cx.prefix .. 'deadlines', text(cx.now + AUDIT_LEASE_US), batch)
  if call('EXISTS', cx.prefix .. 'lease:' .. before) == 1 then queue.mend_batch(cx, before) end
end

-- Whether the lease of a job will expire: its batch has a deadline and lists it.
function queue.is_watched(cx, job)
  local held = call('HGET', cx.prefix .. 'in-flight', job.name)
  local names = queue.has_deadline(cx, held)
    and call('HGET', cx.prefix .. 'lease:' .. sub(held, 17, 32), 'names') or ''
  return string.find('\n' .. names .. '\n', '\n' .. job.name .. '\n', 1, true) ~= nil
end

-- Files an ended job now, with its bulk action or with the finished jobs.
function queue.file_now(cx, job)
  local group = queue.group_state(cx, job.group)
  if job.cancelled then call('HSET', queue.rows_key(cx, job.group), job.id, sub(job.row, 2)) end
  queue.file_end(cx, group, job.id, job.number, job.state == 'F', queue.job_bytes(job.row, job.run))
end
