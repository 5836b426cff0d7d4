-- Findings and repairs.
local mending, findings, suspect = false, {}, 0

-- Records a fault of the current suspect and repairs it on request.
local function found(fault, detail, stored, counted, repair)
  for _, item in ipairs({suspect, fault, detail, text(stored), text(counted), mending and repair and 1 or 0}) do
    findings[#findings + 1] = item
  end
  if mending and repair then repair() end
end

-- Whether to check the current suspect in another step, with a budget that no other has used.
local function is_put_off()
  return too_large and suspect > 1
end

-- Makes a bulk action available for aggregation exactly if it is ready for it. A worker that has
-- leased one that is not ready loses its lease.
local function mend_taking(bulk)
  if is_to_be_taken(bulk) then return hand_out(bulk) end
  if take_no_more(bulk) == 1 and bulk.aggregated == 0 then bulk.fence = 0 end
end

-- Recounts the lanes of an order; resets an empty order.
local function recount_order(state, level)
  local order = state[level]
  order.active, order.touched = call('ZCARD', order.key), true
  if order.active == 0 then
    order.virtual_time, order.epoch = 0, order.epoch + 1
  end
  if not is_active(state) then
    state.virtual_time = 0
    for other = 0, 2 do state[other].tag, state[other].touched = 0, true end
  end
end

-- Removes a lane from wherever it is and, if it has jobs, inserts it into its order.
local function mend_lane(group, lane, members, has_jobs)
  local state = type_state(lane.type)
  local order = state[lane.level]
  for _, member in ipairs(members or {}) do
    local tag = tonumber(call('ZSCORE', order.key, member))
    if tag and (lane.epoch ~= order.epoch or tag < lane.tag) then lane.tag, lane.epoch = tag, order.epoch end
    call('ZREM', order.key, member)
  end
  call('ZREM', prefix .. 'parked', lane.place .. ':' .. group.name)
  call('ZREM', prefix .. 'clearing', lane.place .. ':' .. group.name)
  if lane.standing == 'S' then group.seat_parked = group.seat_parked - 1 end
  lane.standing, lane.park = 'I', 0
  lane.returned = tostring(call('EXISTS', prefix .. 'group:' .. group.name .. ':returned:' .. lane.place))
  if has_jobs then
    enter_order(group, lane, false)
    push_token(lane.type)
  end
  recount_order(state, lane.level)
end

-- Counts the jobs of a batch that are still leased.
local function count_left(batch)
  local names, left = {}, 0
  for name in string.gmatch(call('HGET', prefix .. 'lease:' .. batch, 'names') or '', '[^\n]+') do names[#names + 1] = name end
  for _, held in ipairs(names[1] and call('HMGET', prefix .. 'in-flight', unpack(names)) or {}) do
    if held and (sub(held, 1, 16) == batch or sub(held, 17, 32) == batch) then left = left + 1 end
  end
  return left
end

local function mend_batch(batch)
  local key, left = prefix .. 'lease:' .. batch, count_left(batch)
  if left > 0 then return call('HSET', key, 'left', left) end
  call('DEL', key)
  call('ZREM', prefix .. 'deadlines', batch)
end

-- Removes a job from a place. Counts are not changed: the recount shows whether they included it.
local function take_out(job, spot)
  if spot.word == 'in flight' then
    local held = call('HGET', spot.key, spot.member)
    call('HDEL', spot.key, spot.member)
    for _, batch in ipairs({sub(held, 1, 16), sub(held, 17, 32)}) do
      if call('EXISTS', prefix .. 'lease:' .. batch) == 1 then mend_batch(batch) end
    end
  elseif spot.word == 'waiting' then
    call('ZREM', spot.key, spot.member)
    local number = match(spot.member, '^%d:[^:]+:[^:]+:[^:]+:(%d+)$')
    if number then call('ZREM', prefix .. 'bulk:' .. number .. ':waiting', spot.member) end
  else
    call('LREM', spot.key, -1, spot.member)
    local _, lane = group_state(job.group, spot.place)
    lane.returned = tostring(call('EXISTS', prefix .. 'group:' .. job.group .. ':returned:' .. spot.place))
  end
end

-- Gives a leased job a batch of its own with a deadline, as if it were extended now.
-- Its fence stays.
local function give_deadline(job)
  local key, held = prefix .. 'in-flight', call('HGET', prefix .. 'in-flight', job.name)
  partition.fence = max(partition.fence + 1, now)
  local before, batch = sub(held, 17, 32), format('%016d', partition.fence)
  call('HSET', key, job.name, sub(held, 1, 16) .. batch .. sub(held, 33))
  call('HSET', prefix .. 'lease:' .. batch, 'left', 1, 'names', job.name)
  call('ZADD', prefix .. 'deadlines', text(now + AUDIT_LEASE_US), batch)
  if call('EXISTS', prefix .. 'lease:' .. before) == 1 then mend_batch(before) end
end

-- Whether the lease of a job will expire: its batch has a deadline and lists it.
local function is_watched(job)
  local held = call('HGET', prefix .. 'in-flight', job.name)
  local names = has_deadline(held) and call('HGET', prefix .. 'lease:' .. sub(held, 17, 32), 'names') or ''
  return string.find('\n' .. names .. '\n', '\n' .. job.name .. '\n', 1, true) ~= nil
end

-- Files an ended job now, with its bulk action or with the finished jobs.
local function file_now(job)
  local group = group_state(job.group)
  if job.cancelled then call('HSET', rows_key(job.group), job.id, sub(job.row, 2)) end
  file_end(group, job.id, job.number, job.state == 'F', job_bytes(job.row, job.run))
end
