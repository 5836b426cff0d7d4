-- Moves lanes into their fair order, out of it, aside and back. A member is `sequence:group`.

local function insert_lane(group, lane)
  partition.sequence = partition.sequence + 1
  lane.park = partition.classic == 1 and partition.sequence or 0
  call('ZADD', type_state(lane.type)[lane.level].key, text(lane.tag), format('%016d:%s', partition.sequence, group.name))
end

-- A group's tag by its current score (`classic`): smaller is served first.
local function score_tag(group)
  local known = record(group)
  local total = min(known.total, PROGRESS_JOBS_MAX)
  local left = max(total - group.done, 1)
  local boost = floor(partition.alpha * (max(total, 1) - left) / left)
  return SCORE_CENTRE - (group.base_priority + min(max(boost, -BOOST_MAX), BOOST_MAX) - floor(now / 1000))
end

-- Inserts a lane that has jobs and is in no order into its order, ahead by its credit
-- or by a quantum.
local function enter_order(group, lane, from_idle)
  local state = type_state(lane.type)
  local order = state[lane.level]
  if order.active == 0 then order.tag = max(order.tag, state.virtual_time) end
  if lane.epoch ~= order.epoch then
    lane.tag, lane.remainder, lane.epoch = 0, 0, order.epoch
  end
  if partition.classic == 1 then
    lane.tag = score_tag(group)
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
  insert_lane(group, lane)
end

-- Resets an order that became empty. Called when a lane has left its order for good.
local function left_order(lane)
  local state = type_state(lane.type)
  local order = state[lane.level]
  order.active, order.touched = order.active - 1, true
  if order.active == 0 then
    order.virtual_time, order.epoch = 0, order.epoch + 1
  end
  if not is_active(state) then
    state.virtual_time = 0
    for level = 0, 2 do
      if state[level].tag > 0 then state[level].tag, state[level].touched = 0, true end
    end
  end
end

-- Sets a lane aside: I idle, R until its group's rate allows a job, S until a seat is free, P until
-- its group is resumed, C until `sweep` has cleared its head.
local function park_lane(group, lane, standing, park)
  lane.standing, lane.park = standing, park
  if standing == 'R' then
    call('ZADD', prefix .. 'parked', text(park), lane.place .. ':' .. group.name)
  elseif standing == 'S' then
    group.seat_parked = group.seat_parked + 1
  elseif standing == 'C' then
    call('ZADD', prefix .. 'clearing', text(park), lane.place .. ':' .. group.name)
  end
  left_order(lane)
end

local function wake_lane(group, lane)
  if lane.standing == 'R' then
    call('ZREM', prefix .. 'parked', lane.place .. ':' .. group.name)
  elseif lane.standing == 'S' then
    group.seat_parked = group.seat_parked - 1
  elseif lane.standing ~= 'P' then
    return
  end
  lane.park, lane.standing = 0, 'I'
  if not type_state(lane.type).was[13] then return end -- Its type was removed.
  enter_order(group, lane, false)
  push_token(lane.type)
end

-- The places of all lanes of the group, sorted by (level, type).
local function places_of(group)
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
local function wake_lanes_of(group, standings)
  for _, place in ipairs(places_of(group)) do
    local _, lane = group_state(group.name, place)
    if string.find(standings, lane.standing, 1, true) then wake_lane(group, lane) end
  end
end

-- Handles a lane that just got jobs: it enters its order if it was idle, and a worker is woken.
local function lane_has_jobs(group, lane)
  if lane.standing ~= 'I' then return end
  enter_order(group, lane, true)
  push_token(lane.type)
end
