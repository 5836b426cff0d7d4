-- Moves lanes into their fair order, out of it, aside and back. A member is `sequence:group`.

-- Adds lanes, each its tag and its member. A short sorted set is a list that Redis searches from the
-- start. A long member turns it into a skip list, which it stays until it is empty.
function queue.add_to_order(order, ...)
  if not order.widens then return call('ZADD', order.key, ...) end
  order.widens = false
  call('ZADD', order.key, 0, LONG_NAME, ...)
  call('ZREM', order.key, LONG_NAME)
end

-- Inserts a lane; an operation that adds many lanes, and reads no order, writes them at its end.
function queue.insert_lane(cx, group, lane)
  local order = queue.type_state(cx, lane.type)[lane.level]
  queue.return_to_order(cx, order, group, lane)
  if cx.partition.classic == 1 then lane.park = cx.partition.sequence end
  if not cx.restores_orders then queue.restore_order(order) end
end

-- A group's tag by its current score (`classic`): smaller is served first.
function queue.score_tag(cx, group)
  local known = queue.record(group)
  local total = min(known.total, PROGRESS_JOBS_MAX)
  local left = max(total - group.done, 1)
  local boost = floor(cx.partition.alpha * (max(total, 1) - left) / left)
  return SCORE_CENTRE - (group.base_priority + min(max(boost, -BOOST_MAX), BOOST_MAX) - floor(cx.now / 1000))
end

-- Inserts a lane that has jobs and is in no order into its order, ahead by its credit
-- or by a quantum.
function queue.enter_order(cx, group, lane, from_idle)
  local state = queue.type_state(cx, lane.type)
  local order = state[lane.level]
  if order.active == 0 then order.tag = max(order.tag, state.virtual_time) end
  if lane.epoch ~= order.epoch then
    lane.tag, lane.remainder, lane.epoch = 0, 0, order.epoch
  end
  if cx.partition.classic == 1 then
    lane.tag = queue.score_tag(cx, group)
  else
    local ahead = from_idle and min(CREDIT, floor(order.pool / POOL_SERVED)) or QUANTUM
    local start = max(lane.tag, order.virtual_time - floor(ahead * UNITS / group.weight), 0)
    if from_idle then
      local used = ceil(max(order.virtual_time - start, 0) * group.weight / UNITS)
      order.pool = max(order.pool - used * POOL_SERVED, 0)
    end
    lane.tag = start
  end
  lane.standing = 'A'
  order.active, order.touched = order.active + 1, true
  if order.active == ORDER_WIDE_LANES then order.widens = true end
  queue.insert_lane(cx, group, lane)
end

-- Resets an order that became empty. Called when a lane has left its order for good.
local function left_order(cx, lane)
  local state = queue.type_state(cx, lane.type)
  local order = state[lane.level]
  order.active, order.touched = order.active - 1, true
  if order.active == 0 then
    order.virtual_time, order.epoch = 0, order.epoch + 1
  end
  if not queue.is_active(state) then
    state.virtual_time = 0
    for level = 0, 2 do
      if state[level].tag > 0 then state[level].tag, state[level].touched = 0, true end
    end
  end
end

-- Sets a lane aside: I idle, R until its group's rate allows a job, S until a seat is free, P until
-- its group is resumed, C until `sweep` has cleared its head.
function queue.park_lane(cx, group, lane, standing, park)
  lane.standing, lane.park = standing, park
  if standing == 'R' then
    call('ZADD', cx.prefix .. 'parked', text(park), lane.place .. ':' .. group.name)
  elseif standing == 'S' then
    group.seat_parked = group.seat_parked + 1
  elseif standing == 'C' then
    call('ZADD', cx.prefix .. 'clearing', text(park), lane.place .. ':' .. group.name)
  end
  left_order(cx, lane)
end

function queue.wake_lane(cx, group, lane)
  if lane.standing == 'R' then
    call('ZREM', cx.prefix .. 'parked', lane.place .. ':' .. group.name)
  elseif lane.standing == 'S' then
    group.seat_parked = group.seat_parked - 1
  elseif lane.standing ~= 'P' then
    return
  end
  lane.park, lane.standing = 0, 'I'
  if not queue.type_state(cx, lane.type).was[13] then return end -- Its type was removed.
  queue.enter_order(cx, group, lane, false)
  queue.push_token(cx, lane.type)
end

-- The places of all lanes of the group, sorted by (level, type).
function queue.places_of(group)
  local places, seen = {}, {}
  for _, field in ipairs(call('HKEYS', group.key)) do
    if sub(field, 1, 5) == 'lane:' then seen[sub(field, 6)] = true end
  end
  for place in pairs(group.lanes) do seen[place] = true end
  for place in pairs(seen) do places[#places + 1] = place end
  table.sort(places, precedes)
  return places
end

-- Wakes the group's lanes with a standing among `standings`.
function queue.wake_lanes_of(cx, group, standings)
  for _, place in ipairs(queue.places_of(group)) do
    local _, lane = queue.group_state(cx, group.name, place)
    if string.find(standings, lane.standing, 1, true) then queue.wake_lane(cx, group, lane) end
  end
end

-- Handles a lane that just got jobs: it enters its order if it was idle, and a worker is woken.
function queue.lane_has_jobs(cx, group, lane)
  if lane.standing ~= 'I' then return end
  queue.enter_order(cx, group, lane, true)
  queue.push_token(cx, lane.type)
end
