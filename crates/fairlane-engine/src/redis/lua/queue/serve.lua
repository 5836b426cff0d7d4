-- Serves types: lanes in fair order (`share`), or admitted jobs (`classic`).

-- The level that is served next, among those with lanes in order.
local function next_level(cx, state)
  local best
  for level = 0, 2 do
    local order = state[level]
    if order.active > 0 then
      if cx.partition.strict == 1 or cx.partition.classic == 1 then return level end
      if not best or order.tag < state[best].tag then best = level end
    end
  end
  return best
end

-- Jobs per second by a group's rate, or nil without one.
local function group_rate(group)
  if not group.flow then return nil end
  local count, period_ms = match(group.rate, '^(%d+):(%d+)')
  return floor(floor(count * MILLI * 1000 / period_ms) / 1000)
end

-- Charges a lane, its order and its level, and every gate.
local function charge(cx, state, group, lane, jobs, cost)
  local order = state[lane.level]
  cx.left, cx.partition.backlog, group.backlog = cx.left - jobs, cx.partition.backlog - jobs,
    group.backlog - jobs
  queue.charge_gates(cx, state, group, jobs)
  order.virtual_time = max(order.virtual_time, lane.tag)
  order.pool = min(order.pool + jobs, POOL_FULL)
  local units = cost * UNITS + lane.remainder
  if units < 0 then
    lane.remainder = units
  else
    lane.tag, lane.remainder = lane.tag + floor(units / group.weight), units % group.weight
  end
  state.virtual_time = max(state.virtual_time, order.tag)
  order.tag, order.touched = order.tag + cost * order.units, true
end

-- Sets aside a lane of a denied group.
local function deny_lane(cx, state, group, lane, standing, park)
  cx.parks = cx.parks + 1
  if standing ~= 'P' then
    queue.note_congestion(cx, group, group.backlog,
      max(group_rate(group) or queue.answered_lately(cx, state), 1))
  end
  queue.park_lane(cx, group, lane, standing, park)
end

-- Moves a visited lane to its new place.
local function put_lane_back(cx, state, group, lane, empty, blocked)
  if empty then return queue.park_lane(cx, group, lane, 'I', 0) end
  if blocked then
    cx.parks = cx.parks + 1
    return queue.park_lane(cx, group, lane, 'C', cx.now)
  end
  local pass, standing, park = queue.group_pass(cx, group)
  if pass > 0 then return queue.insert_lane(cx, group, lane) end
  deny_lane(cx, state, group, lane, standing, park)
end

-- Serves one lane of a type; lanes of denied groups are parked on the way.
function queue.serve_type(cx, state)
  while true do
    local level = next_level(cx, state)
    if not level then return 'type blocked' end
    local type_jobs, type_wake = queue.type_pass(cx, state)
    if type_jobs == 0 then
      queue.note_wake(cx, type_wake)
      return 'type blocked'
    end
    local queue_jobs, queue_wake = queue.queue_pass(cx)
    if queue_jobs == 0 then
      queue.note_wake(cx, queue_wake)
      return 'all blocked'
    end
    if cx.parks >= LEASE_PARKS_MAX then
      queue.go_on_at_once(cx, state)
      return 'all blocked'
    end
    local order = state[level]
    local popped = call('ZPOPMIN', order.key)
    local group, lane = queue.group_state(cx, sub(popped[1], 18), order.place)
    lane.tag, lane.epoch = tonumber(popped[2]), order.epoch
    local pass, standing, park = queue.group_pass(cx, group)
    if pass > 0 then
      local most = min(cx.left, type_jobs, queue_jobs, pass)
      local jobs, cost, empty, blocked = queue.serve_lane(cx, state, group, lane, most, cx.padded, cx.worker)
      if jobs > 0 then
        charge(cx, state, group, lane, jobs, cost)
      elseif empty then
        cx.parks = cx.parks + 1
      end
      put_lane_back(cx, state, group, lane, empty, blocked)
      if jobs > 0 then return 'served' end
    else
      deny_lane(cx, state, group, lane, standing, park)
    end
  end
end

-- Leases one admitted job of a type (`classic`); a job that may not run after all
-- returns to its lane.
function queue.serve_ready(cx, state)
  while true do
    local key = queue.ready_key(cx, state)
    if call('EXISTS', key) == 0 then return 'type blocked' end
    local type_jobs, type_wake = queue.type_pass(cx, state)
    if type_jobs == 0 then
      queue.note_wake(cx, type_wake)
      return 'type blocked'
    end
    local queue_jobs, queue_wake = queue.queue_pass(cx)
    if queue_jobs == 0 then
      queue.note_wake(cx, queue_wake)
      return 'all blocked'
    end
    local member = call('LPOP', key)
    local group, lane, id = queue.placed(cx, member)
    local row = call('HGET', queue.rows_key(cx, group.name), id)
    local cost, number, cancelled, size = queue.read_row(row or '')
    local disposition = row and queue.disposition_of(cx, number, cancelled)
    if disposition == 'run' and not queue.group_closed(group) then
      local visit = queue.begin_visit(cx, lane.place, state, group)
      if number ~= '' then queue.bulk_reached(cx, queue.bulk_state(cx, number), 'RUNNING') end
      queue.pick(cx, visit, id, row, size,
        queue.hold(cx.padded, 'n', lane.place, text(cost), number, cx.worker), true)
      cx.left, cx.partition.backlog, group.backlog = cx.left - 1, cx.partition.backlog - 1, group.backlog - 1
      queue.charge_gates(cx, state, group, 1)
      return 'served'
    end
    if cx.skips >= LEASE_SKIPS_MAX then
      call('LPUSH', key, member)
      queue.go_on_at_once(cx, state)
      return 'type blocked'
    end
    cx.skips = cx.skips + 1
    if disposition == 'run' then
      queue.return_to_lane(cx, group, lane, id, 'RPUSH')
    elseif disposition then
      queue.skip_unrunnable(cx, group, lane.place, id, number, text(cost), disposition, row)
    end
  end
end
