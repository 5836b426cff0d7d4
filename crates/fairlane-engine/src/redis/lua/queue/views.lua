-- Views of a job, a group and a type, with the names that they have in core.
local ENDS = {C = 'Completed', F = 'Failed', X = 'Cancelled'}
local STANDINGS = {I = 'Idle', A = 'Active', S = 'SeatParked', P = 'Paused'}

-- Name and course of a bulk action; one that no longer exists has no name and drops its jobs.
local function bulk_of(cx, number)
  if number == '' then return '', '' end
  cx.bulks_seen = cx.bulks_seen or {}
  local seen = cx.bulks_seen[number]
  if not seen then
    local full_name, course = unpack(call('HMGET', cx.prefix .. 'bulk:' .. number, 'name', 'course'))
    seen = full_name and {match(full_name, ':(.+)$'), course or ''} or {'', 'drop'}
    cx.bulks_seen[number] = seen
  end
  return seen[1], seen[2]
end

-- A row without its payload, but with its trace.
function queue.head_of(row)
  local head = match(row, '^X?..........%d:[^:]+:%d*:%d*[:+]')
  return byte(head, -1) == 43 and sub(row, 1, #head + TRACE_BYTES) or head
end

-- A job wherever it is, or nil if it does not exist.
function queue.read_job(cx, group, id)
  local row, run = unpack(call('HMGET', queue.rows_key(cx, group), id, ':' .. id))
  if not row then return nil end
  local place, number = match(row, '^X?..........(%d:[^:]+):%d*:(%d*)[:+]')
  local name = group .. ':' .. id
  local member = queue.placed_name(place, name, number)
  local due, held = call('ZSCORE', cx.prefix .. 'non-ready-queue', member),
    call('HGET', cx.prefix .. 'in-flight', name)
  local deadline = held and call('ZSCORE', cx.prefix .. 'deadlines', sub(held, 17, 32))
  return {
    group = group, id = id, row = row, run = run, due = due and tonumber(due) or nil, held = held,
    deadline = deadline and tonumber(deadline) or nil,
    ready = call('LPOS', cx.prefix .. 'ready-queue:' .. sub(place, 3), member),
  }
end

-- Adds the history of a job to its view. A run is state, settled fence and time of settlement at
-- fixed width, then `:level:type:cost:attempts:throttles:losses:worker:note`.
local function add_run(view, run)
  local attempts, throttles, losses, worker, note =
    match(run, '^:%d:[^:]+:%d+:(%d+):(%d+):(%d+):([^:]*):(.*)$', 34)
  view.state = ENDS[sub(run, 1, 1)] or view.state
  view.fence, view.settled_at = positive(tonumber(sub(run, 2, 17))), positive(tonumber(sub(run, 18, 33)))
  view.attempts, view.throttles, view.losses = tonumber(attempts), tonumber(throttles), tonumber(losses)
  view.worker, view.note = worker ~= '' and worker or nil, note
end

-- The view of a job, and the course of its bulk action or ''.
function queue.view_job(cx, job)
  local created_at, level, type_id, cost, number, mark, tail =
    match(job.row, '^X?(..........)(%d):([^:]+):(%d*):(%d*)([:+])(.*)$')
  local bulk, course = bulk_of(cx, number)
  local is_cancelled = sub(job.row, 1, 1) == 'X' or course == 'drop'
  local view = {
    job = {group = job.group, id = job.id}, type_id = type_id, level = tonumber(level),
    cost = tonumber(cost) or 1, payload = mark == '+' and sub(tail, TRACE_BYTES + 1) or tail,
    trace = mark == '+' and sub(tail, 1, TRACE_BYTES) or nil, created_at = tonumber(created_at, 36),
    state = job.due and 'Waiting' or is_cancelled and 'Cancelled' or job.ready and 'Ready' or 'Pending',
    ['until'] = job.due or job.deadline, attempts = 0, throttles = 0, losses = 0, note = '',
    bulk = bulk ~= '' and bulk or nil,
  }
  if job.run then add_run(view, job.run) end
  if job.held then
    view.state, view.attempts, view.fence = 'Processing', view.attempts + 1, tonumber(sub(job.held, 1, 16))
    view.worker = match(job.held, '^[^:]*:[^:]*:[^:]*:[^:]*:[^:]*:([^:]*)')
    local done, total = match(job.held, '@(%d+)/(%d+)$')
    view.progress = done and {done = tonumber(done), total = tonumber(total)}
  end
  return view, course
end

-- The settings of a group.
function queue.group_settings(group)
  local weight, paused, concurrency, base_priority, rate =
    match(group.limits or '1:0:0:0:0:0:0', '^(%d+):(%d):(%d+):(-?%d+):(.*)$')
  return {
    weight = tonumber(weight), paused = paused == '1', concurrency = positive(tonumber(concurrency)),
    base_priority = tonumber(base_priority), rate = kernel.rate_of(rate),
  }
end

-- The number of jobs in the lists of a lane: never leased, and returned.
function queue.lane_lengths(cx, group, place)
  local part = cx.prefix .. 'group:' .. group.name
  return call('LLEN', part .. ':jobs:' .. place), call('LLEN', part .. ':returned:' .. place)
end

local function standing_of(lane)
  if lane.standing == 'R' then return {RateParked = lane.park} end
  if lane.standing == 'C' then return {Clearing = lane.park} end
  return STANDINGS[lane.standing]
end

-- The view of a group, or nil if it does not exist. A wrong count may be negative until an audit
-- has repaired it.
function queue.view_group(cx, name)
  local fields = call('HKEYS', cx.prefix .. 'group:' .. name .. ':meta')
  if #fields == 0 then return nil end
  local group, places, lanes = queue.group_state(cx, name), {}, {}
  local known = queue.record(group)
  for _, field in ipairs(fields) do
    if sub(field, 1, 5) == 'lane:' then places[#places + 1] = sub(field, 6) end
  end
  table.sort(places, precedes)
  for _, place in ipairs(places) do
    local _, lane = queue.group_state(cx, name, place)
    local backlog, returned = queue.lane_lengths(cx, group, place)
    if backlog + returned > 0 then
      lanes[#lanes + 1] = {
        level = lane.level, type_id = lane.type, backlog = backlog, returned = returned,
        standing = standing_of(lane),
      }
    end
  end
  return {
    settings = queue.group_settings(group), backlog = max(group.backlog, 0),
    in_flight = max(group.in_flight, 0), waiting = max(known.waiting, 0), total = known.total,
    done = group.done, stored_bytes = max(group.stored_bytes, 0), lanes = lanes,
  }
end

-- The settings of a type, from `paused:concurrency:dead_at:rate`.
function queue.type_settings(limits)
  local paused, concurrency, dead_at, rate = match(limits, '^(%d):(%d+):(%d+):(.*)$')
  return {
    paused = paused == '1', concurrency = positive(tonumber(concurrency)),
    max_retry_count = dead_at ~= '0' and dead_at - 1 or nil, rate = kernel.rate_of(rate),
  }
end

-- The view of a type. One that was removed has the view of a new one.
function queue.view_type(cx, name)
  local state = queue.type_state(cx, name)
  local milli = queue.rate_milli(cx, state)
  return {
    settings = queue.type_settings(state.limits == '' and '0:0:0:0:0:0' or state.limits),
    in_flight = max(state.in_flight, 0), active_lanes = {state[0].active, state[1].active, state[2].active},
    rate_milli = milli, closed_until = state.closed_until > cx.now and state.closed_until or nil,
    answers = queue.answered_lately(cx, state), asked_at = positive(state.asked_at),
    ready = call('LLEN', cx.prefix .. 'ready-queue:' .. name),
  }
end
