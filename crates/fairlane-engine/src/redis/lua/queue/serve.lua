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

-- Counts leased jobs of a type and a group, and charges every gate.
local function count_leased(cx, state, group, jobs)
  local partition = cx.partition
  cx.left, partition.backlog, group.backlog = cx.left - jobs, partition.backlog - jobs, group.backlog - jobs
  queue.charge_gates(cx, state, group, jobs)
end

-- The number of jobs that the type and the queue let pass; or 0, and which of them is blocked.
local function pass(cx, state)
  local type_jobs, type_wake = queue.type_pass(cx, state)
  if type_jobs == 0 then
    queue.note_wake(cx, type_wake)
    return 0, 'type blocked'
  end
  local queue_jobs, queue_wake = queue.queue_pass(cx)
  if queue_jobs == 0 then
    queue.note_wake(cx, queue_wake)
    return 0, 'all blocked'
  end
  return type_jobs < queue_jobs and type_jobs or queue_jobs
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
  local of_group, standing, park = queue.group_pass(cx, group)
  if of_group > 0 then return queue.return_to_order(cx, state[lane.level], group, lane) end
  deny_lane(cx, state, group, lane, standing, park)
end

-- Serves one lane of a type; lanes of denied groups are parked on the way.
function queue.serve_type(cx, state)
  while true do
    local level = next_level(cx, state)
    if not level then return 'type blocked' end
    local most, blocked_by = pass(cx, state)
    if most == 0 then return blocked_by end
    if cx.parks >= LEASE_PARKS_MAX then
      queue.go_on_at_once(cx, state)
      return 'all blocked'
    end
    local order = state[level]
    local name, tag = queue.next_lane(cx, order)
    local group, lane = queue.group_state(cx, name, order.place)
    lane.tag, lane.epoch = tag, order.epoch
    local of_group, standing, park = queue.group_pass(cx, group)
    if of_group > 0 then
      local jobs, empty, blocked = queue.serve_lane(cx, state, group, lane, min(cx.left, most, of_group))
      if jobs > 0 then
        count_leased(cx, state, group, jobs)
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
    local most, blocked_by = pass(cx, state)
    if most == 0 then return blocked_by end
    local member = call('LPOP', key)
    local group, lane, id = queue.placed(cx, member)
    local row = call('HGET', queue.rows_key(cx, group.name), id)
    local cost, number, cancelled, size = queue.read_row(row or '')
    local disposition = row and queue.disposition_of(cx, number, cancelled)
    if disposition == 'run' and not queue.group_closed(group) then
      local visit = queue.begin_visit(cx, lane.place, group)
      queue.pick(cx, visit, lane.place, id, row, size, cost, number, true)
      queue.end_visit(cx, visit)
      count_leased(cx, state, group, 1)
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
