#!lua flags=allow-oom
-- admit: the fetcher of the classic discipline. Jobs leave their lanes by score; a job that fits
-- the window of this second becomes ready, a refused one waits.
-- KEYS[1] the partition.
-- ARGV[1] time, [2] most jobs.
-- Replies {jobs passed in this second, their limit, the limit per group, whether a ready list is
-- full (0 1), whether there may be more (0 1), then per job: name, 'r' or 'w', and for w: waiting
-- jobs, speed, backoff in ms, and if the speed is not 0 the base backoff in ms}.
--@include base
--@include rate
--@include lane
--@include write
--@include order
--@include waiting
--@include gate
--@include bytes
--@include bulk
--@include finish_job
--@include congestion
local jobs_max, second = tonumber(ARGV[2]), floor(now / 1000000)
read_partition({'sequence', 'backlog', 'cursor', 'classic', 'alpha', 'window', 'global_rps', 'ready_queue_max_size'})
local decided, parks, skips, full, more, reply = 0, 0, 0, 0, 0, {}

-- Jobs that have passed a window, `second:jobs`, in this second.
local function passed_in(window)
  local at, jobs = match(window or '0:0', '^(%d+):(%d+)$')
  return tonumber(at) == second and tonumber(jobs) or 0
end
local passed = passed_in(partition.window)

local function append(...)
  for index = 1, select('#', ...) do reply[#reply + 1] = (select(index, ...)) end
end

-- Takes a slot in the window for one more job of this group; false if there is none.
local function window_passes(group)
  if not group.window_was then
    group.window_was = call('HGET', group.key, 'window') or '0:0'
    group.window = group.window_was
  end
  local of_group = passed_in(group.window)
  partition.window = second .. ':' .. text(passed)
  if passed >= partition.global_rps or of_group >= group_speed() then return false end
  passed = passed + 1
  partition.window, group.window = second .. ':' .. text(passed), second .. ':' .. text(of_group + 1)
  return true
end

-- Moves a popped job to the ready list or to the waiting jobs.
local function decide(state, group, lane, id, number)
  local name = group.name .. ':' .. id
  decided = decided + 1
  if window_passes(group) then
    call('RPUSH', prefix .. 'ready-queue:' .. state.name, placed_name(lane.place, name, number))
    if number ~= '' then bulk_reached(bulk_state(number), 'DISPATCHED') end
    push_token(state.name)
    return append(name, 'r')
  end
  local delay_ms, waiting, speed, backoff_ms = refuse(group)
  wait_until(group, now + delay_ms * 1000, lane.place, id, number)
  append(name, 'w', text(waiting), text(speed), text(backoff_ms))
  if speed > 0 then append(text(congestion_settings().base_backoff_ms)) end
end

-- Pops the first id of a lane; returns it, and the list that it was in.
local function pop_id(group, lane)
  local part = prefix .. 'group:' .. group.name
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
local function put_back(group, lane)
  local empty = lane.returned == '0' and call('EXISTS', prefix .. 'group:' .. group.name .. ':jobs:' .. lane.place) == 0
  if empty then return park_lane(group, lane, 'I', 0) end
  lane.tag = score_tag(group)
  insert_lane(group, lane)
end

-- Decides the first runnable job of a lane; false without one, or after too many unrunnable jobs.
local function visit(state, group, lane)
  local skips_left = min(VISIT_SKIPS_MAX, LEASE_SKIPS_MAX - skips)
  while true do
    local id, key = pop_id(group, lane)
    if not id then break end
    local row = call('HGET', rows_key(group.name), id)
    local cost, number, cancelled = read_row(row or '')
    local disposition = row and disposition_of(number, cancelled)
    if disposition == 'run' then
      decide(state, group, lane, id, number)
      put_back(group, lane)
      return true
    elseif disposition and skips_left == 0 then
      call('LPUSH', key, id)
      if string.find(key, ':returned:', 1, true) then lane.returned = '1' end
      parks = parks + 1
      park_lane(group, lane, 'C', now)
      return false
    elseif disposition then
      skips, skips_left = skips + 1, skips_left - 1
      skip_unrunnable(group, lane.place, id, number, text(cost), disposition, row)
    end
  end
  parks = parks + 1
  park_lane(group, lane, 'I', 0)
  return false
end

-- Decides one job of a type: 'decided', 'type done' or 'all done'.
local function admit_one(state)
  while true do
    local order = state[0].active > 0 and state[0] or state[1].active > 0 and state[1] or state[2]
    if order.active == 0 or state.paused then return 'type done' end
    if call('LLEN', prefix .. 'ready-queue:' .. state.name) >= partition.ready_queue_max_size then
      full = 1
      return 'type done'
    end
    if parks >= LEASE_PARKS_MAX then return 'all done' end
    local popped = call('ZPOPMIN', order.key)
    local group, lane = group_state(sub(popped[1], 18), order.place)
    lane.tag, lane.epoch = tonumber(popped[2]), order.epoch
    local standing = group_closed(group)
    if standing then
      parks = parks + 1
      park_lane(group, lane, standing, 0)
    elseif visit(state, group, lane) then
      return 'decided'
    end
  end
end
--@include round_robin
record_ended()
local group_limit = group_speed()
write_all()
return {text(passed), text(partition.global_rps), text(group_limit), full, more, unpack(reply)}
