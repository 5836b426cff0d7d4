-- Serves types: lanes in fair order (`share`), or admitted jobs (`classic`).

local function ready_key(state)
  return prefix .. 'ready-queue:' .. state.name
end

-- Jobs per second by a group's rate, or nil without one.
local function group_rate(group)
  if not group.flow then return nil end
  local count, period_ms = match(group.rate, '^(%d+):(%d+)')
  return floor(floor(count * MILLI * 1000 / period_ms) / 1000)
end

-- Charges a lane, its order and its level, and every gate.
local function charge(state, group, lane, jobs, cost)
  local order = state[lane.level]
  left, partition.backlog, group.backlog = left - jobs, partition.backlog - jobs, group.backlog - jobs
  charge_gates(state, group, jobs)
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
local function deny_lane(state, group, lane, standing, park)
  parks = parks + 1
  if standing ~= 'P' then note_congestion(group, group.backlog, max(group_rate(group) or answered_lately(state), 1)) end
  park_lane(group, lane, standing, park)
end

-- Moves a visited lane to its new place.
local function put_back(state, group, lane, empty, blocked)
  if empty then return park_lane(group, lane, 'I', 0) end
  if blocked then
    parks = parks + 1
    return park_lane(group, lane, 'C', now)
  end
  local pass, standing, park = group_pass(group)
  if pass > 0 then return insert_lane(group, lane) end
  deny_lane(state, group, lane, standing, park)
end

-- Handles a bound that was reached. Lanes that were set aside are not visited again, so the next
-- call continues from here. The token lets that call start without a delay.
local function go_on_at_once(state)
  note_wake(now)
  push_token(state.name)
end

-- Serves one lane of a type; lanes of denied groups are parked on the way.
local function serve_type(state)
  while true do
    local level = next_level(state)
    if not level then return 'type blocked' end
    local type_jobs, type_wake = type_pass(state)
    if type_jobs == 0 then
      note_wake(type_wake)
      return 'type blocked'
    end
    local queue_jobs, whole_wake = queue_pass()
    if queue_jobs == 0 then
      note_wake(whole_wake)
      return 'all blocked'
    end
    if parks >= LEASE_PARKS_MAX then
      go_on_at_once(state)
      return 'all blocked'
    end
    local order = state[level]
    local popped = call('ZPOPMIN', order.key)
    local group, lane = group_state(sub(popped[1], 18), order.place)
    lane.tag, lane.epoch = tonumber(popped[2]), order.epoch
    local pass, standing, park = group_pass(group)
    if pass > 0 then
      local most = min(left, type_jobs, queue_jobs, pass)
      local jobs, cost, empty, blocked = serve_lane(state, group, lane, most, padded, worker)
      if jobs > 0 then charge(state, group, lane, jobs, cost) elseif empty then parks = parks + 1 end
      put_back(state, group, lane, empty, blocked)
      if jobs > 0 then return 'served' end
    else
      deny_lane(state, group, lane, standing, park)
    end
  end
end

-- Leases one admitted job of a type (`classic`); a job that may not run after all
-- returns to its lane.
local function serve_ready(state)
  while true do
    local key = ready_key(state)
    if call('EXISTS', key) == 0 then return 'type blocked' end
    local type_jobs, type_wake = type_pass(state)
    if type_jobs == 0 then
      note_wake(type_wake)
      return 'type blocked'
    end
    local queue_jobs, whole_wake = queue_pass()
    if queue_jobs == 0 then
      note_wake(whole_wake)
      return 'all blocked'
    end
    local member = call('LPOP', key)
    local group, lane, id = placed(member)
    local row = call('HGET', rows_key(group.name), id)
    local cost, number, cancelled, size = read_row(row or '')
    local disposition = row and disposition_of(number, cancelled)
    if disposition == 'run' and not group_closed(group) then
      local visit = begin_visit(lane.place, state, group)
      if number ~= '' then bulk_reached(bulk_state(number), 'RUNNING') end
      pick(visit, id, row, size, hold(padded, 'n', lane.place, text(cost), number, worker), true)
      left, partition.backlog, group.backlog = left - 1, partition.backlog - 1, group.backlog - 1
      charge_gates(state, group, 1)
      return 'served'
    end
    if skips >= LEASE_SKIPS_MAX then
      call('LPUSH', key, member)
      go_on_at_once(state)
      return 'type blocked'
    end
    skips = skips + 1
    if disposition == 'run' then
      return_to_lane(group, lane, id, 'RPUSH')
    elseif disposition then
      skip_unrunnable(group, lane.place, id, number, text(cost), disposition, row)
    end
  end
end
