-- What happens in a room as time passes: active places end, silent waiters are dropped, and free
-- places are given to the next waiters.

-- Whether a room in this phase is a pre-queue that has not opened yet.
function room.is_before_opening(phase)
  return phase == 'prequeue' or phase == 'frozen'
end

-- Removes the places of `active` or `silent` whose time has come, and counts them in a total.
local function remove_due(cx, state, set, total)
  local first = room.first(state, set)
  if not first or first > cx.now then return end
  room.complete(state)
  local due = call('ZRANGE', state.keys .. set, '-inf', text(cx.now), 'BYSCORE', 'LIMIT', 0, ROOM_STEP_PLACES_MAX)
  for _, token in ipairs(due) do room.remove(state, room.place(state, token)) end
  state.totals[total], state.moved = state.totals[total] + #due, state.moved + #due
end

-- Moves waiters to free places, as many as the rate allows. Returns when admission goes on, or nil if
-- it waits for a free place or for a user that joins.
local function admit(cx, state)
  local free = max(state.max_active - room.active(state), 0)
  local wanted = min(free, room.waiting(state))
  if wanted == 0 or room.is_before_opening(state.phase) or state.paused then return nil end
  room.complete(state)
  if cx.now < state.closed_until then return state.closed_until end
  local cut = state.cut
  local flow, allowed, level = queue.type_flow(cx, state), wanted, nil
  if state.cut ~= cut then state.changed = true end
  if flow then
    level = kernel.refilled(cx, state.bucket, flow)
    allowed = min(kernel.slots_in(level, flow), wanted)
    if allowed == 0 then return kernel.wake_time(cx, level, flow, 1) end
  end
  local admitted = 0
  for _ = 1, ROOM_STEP_PLACES_MAX do
    if admitted == allowed or room.waiting(state) == 0 then break end
    if room.admit_next(cx, state) then admitted = admitted + 1 end
    state.moved = state.moved + 1
  end
  if admitted > 0 then
    if flow then
      level = level - admitted * flow.job_units
      state.bucket = kernel.bucket_text(cx, level)
    end
    state.window = {room.turned_window(cx.now, unpack(state.window))}
    state.window[2] = state.window[2] + admitted
  end
  if admitted == free or room.waiting(state) == 0 then return nil end
  return flow and admitted == allowed and kernel.wake_time(cx, level, flow, 1) or cx.now
end

-- A room brought up to date, or nil. Afterwards `store` puts it back.
function room.take(cx, name)
  local state = room.load(cx, name)
  if not state then return nil end
  remove_due(cx, state, 'active', 5)
  remove_due(cx, state, 'silent', 6)
  admit(cx, state)
  return state
end

-- A room brought up to date, or a new one; nil if there are too many.
function room.take_or_new(cx, name)
  local state = room.take(cx, name)
  if not state and call('ZCARD', cx.rooms .. 'room-names') < ROOMS_MAX then state = room.new(cx, name) end
  return state
end

-- Whether the room has no places and nothing was set.
local function is_idle(state)
  return room.active(state) == 0 and room.waiting(state) == 0 and state.settings == 'ROOM_DEFAULT_SETTINGS'
    and state.phase == 'open' and not state.paused
end

-- Admits waiters to places that a command has freed, and writes the room, unless it is to be
-- forgotten.
function room.store(cx, state)
  local deadline = admit(cx, state)
  if is_idle(state) then
    room.complete(state)
    if state.idle_since == 0 then state.idle_since, state.changed = cx.now, true end
    deadline = state.idle_since + ROOM_IDLE_US
    if deadline <= cx.now then return room.forget(cx, state) end
  elseif state.changed then
    -- A room that is not idle any more has changed.
    state.idle_since = 0
  end
  for _, set in ipairs({'active', 'silent'}) do
    local first = room.first(state, set)
    if first then deadline = min(deadline or first, first) end
  end
  room.write(cx, state)
  if deadline then
    call('ZADD', cx.rooms .. 'room-deadlines', text(deadline), state.name)
  else
    call('ZREM', cx.rooms .. 'room-deadlines', state.name)
  end
end
