#!lua flags=allow-oom
-- admit: the fetcher of the classic discipline. Jobs leave their lanes by score; a job that fits
-- the window of this second becomes ready, a refused one waits.
-- Key: the partition.
local FIELDS =
  {'sequence', 'backlog', 'cursor', 'classic', 'alpha', 'window', 'global_rps', 'ready_queue_max_size'}

-- A speed of 0 means that congestion control is off, and then the base backoff is no sign of
-- congestion.
local function backoff_of(cx, waiting, speed, backoff_ms)
  local base_ms = queue.congestion_settings(cx).base_backoff_ms
  local level = speed == 0 and 'None' or queue.congestion_level(backoff_ms, base_ms)
  return {waiting = waiting, speed = speed, backoff_ms = backoff_ms, level = level}
end

-- Moves a popped job to the ready list or to the waiting jobs.
local function decide(cx, state, group, lane, id, number)
  local name, admission = group.name .. ':' .. id, {job = {group = group.name, id = id}}
  cx.admissions[#cx.admissions + 1] = admission
  if queue.window_passes(cx, group) then
    call('RPUSH', cx.prefix .. 'ready-queue:' .. state.name, queue.placed_name(lane.place, name, number))
    if number ~= '' then queue.bulk_reached(cx, queue.bulk_state(cx, number), 'DISPATCHED') end
    queue.push_token(cx, state.name)
    admission.destination = 'Ready'
    return
  end
  local delay_ms, waiting, speed, backoff_ms = queue.refuse(cx, group)
  queue.wait_until(cx, group, cx.now + delay_ms * 1000, lane.place, id, number)
  admission.destination = {Waiting = backoff_of(cx, waiting, speed, backoff_ms)}
end

-- Pops the first id of a lane; returns it, and the list that it was in.
local function pop_id(cx, group, lane)
  local part = cx.prefix .. 'group:' .. group.name
  if lane.returned == '1' then
    local key = part .. ':returned:' .. lane.place
    local id = call('LPOP', key)
    if call('EXISTS', key) == 0 then lane.returned = '0' end
    if id then return id, key end
  end
  local key = part .. ':jobs:' .. lane.place
  return call('LPOP', key), key
end

-- Moves a visited lane to its new place.
local function put_back(cx, group, lane)
  local empty = lane.returned == '0'
    and call('EXISTS', cx.prefix .. 'group:' .. group.name .. ':jobs:' .. lane.place) == 0
  if empty then return queue.park_lane(cx, group, lane, 'I', 0) end
  lane.tag = queue.score_tag(cx, group)
  queue.insert_lane(cx, group, lane)
end

-- Decides the first runnable job of a lane; false without one, or after too many unrunnable jobs.
local function visit(cx, state, group, lane)
  local skips_left = min(VISIT_SKIPS_MAX, LEASE_SKIPS_MAX - cx.skips)
  while true do
    local id, key = pop_id(cx, group, lane)
    if not id then break end
    local row = call('HGET', queue.rows_key(cx, group.name), id)
    local cost, number, cancelled = queue.read_row(row or '')
    local disposition = row and queue.disposition_of(cx, number, cancelled)
    if disposition == 'run' then
      decide(cx, state, group, lane, id, number)
      put_back(cx, group, lane)
      return true
    elseif disposition and skips_left == 0 then
      call('LPUSH', key, id)
      if string.find(key, ':returned:', 1, true) then lane.returned = '1' end
      cx.parks = cx.parks + 1
      queue.park_lane(cx, group, lane, 'C', cx.now)
      return false
    elseif disposition then
      cx.skips, skips_left = cx.skips + 1, skips_left - 1
      queue.skip_unrunnable(cx, group, lane.place, id, number, text(cost), disposition, row)
    end
  end
  cx.parks = cx.parks + 1
  queue.park_lane(cx, group, lane, 'I', 0)
  return false
end

-- Decides one job of a type: 'decided', 'type done' or 'all done'.
local function admit_one(cx, state)
  while true do
    local order = state[0].active > 0 and state[0] or state[1].active > 0 and state[1] or state[2]
    if order.active == 0 or state.paused then return 'type done' end
    if call('LLEN', cx.prefix .. 'ready-queue:' .. state.name) >= cx.partition.ready_queue_max_size then
      cx.full = true
      return 'type done'
    end
    if cx.parks >= LEASE_PARKS_MAX then return 'all done' end
    local popped = call('ZPOPMIN', order.key)
    local group, lane = queue.group_state(cx, sub(popped[1], 18), order.place)
    lane.tag, lane.epoch = tonumber(popped[2]), order.epoch
    local standing = queue.group_closed(group)
    if standing then
      cx.parks = cx.parks + 1
      queue.park_lane(cx, group, lane, standing, 0)
    elseif visit(cx, state, group, lane) then
      return 'decided'
    end
  end
end

-- All types, starting after the type served last.
local function types_after_cursor(cx)
  local turns, behind, known = {}, {}, call('SMEMBERS', cx.prefix .. 'types')
  table.sort(known, precedes)
  for _, name in ipairs(known) do
    local list = precedes(cx.partition.cursor, name) and turns or behind
    list[#list + 1] = name
  end
  for _, name in ipairs(behind) do turns[#turns + 1] = name end
  return turns
end

-- Serves each type one job in turn; returns whether there may be more.
local function admit_in_turn(cx, jobs_max)
  local turns = cx.partition.classic == 1 and types_after_cursor(cx) or {}
  while #cx.admissions < jobs_max and turns[1] do
    local name = table.remove(turns, 1)
    local turn = admit_one(cx, queue.type_state(cx, name))
    if turn == 'all done' then return true end
    if turn == 'decided' then
      cx.partition.cursor = name
      turns[#turns + 1] = name
    end
  end
  return turns[1] ~= nil
end

function queue.ops.admit(cx, command)
  kernel.read_partition(cx, FIELDS)
  cx.admissions, cx.parks, cx.skips, cx.full = {}, 0, 0, false
  cx.passed = queue.passed_in(cx, cx.partition.window)
  local more = admit_in_turn(cx, command.jobs_max)
  queue.record_ended(cx)
  local group_limit = queue.group_speed(cx)
  queue.write_all(cx)
  return {
    admissions = cx.admissions, window = {cx.passed, cx.partition.global_rps}, group_limit = group_limit,
    full = cx.full, more = more,
  }
end
