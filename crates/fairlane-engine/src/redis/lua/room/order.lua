-- Which waiter is next, at which position a waiter stands, and when it polls again.

local function stride(state, class)
  return floor(UNITS / state.weights[class + 1])
end

-- The class whose first waiter is next; there is one.
local function next_class(state)
  local best
  for class = 0, #state.weights - 1 do
    if room.waiting_in(state, class) > 0 and (not best or state.tags[class + 1] < state.tags[best + 1]) then
      best = class
    end
  end
  return best
end

-- Admits the waiter that is next and returns true, or drops it if it has fallen silent.
function room.admit_next(cx, state)
  local class = next_class(state)
  local first_silence = room.first(state, 'silent')
  if first_silence and first_silence <= cx.now then
    local token = call('ZRANGE', room.waiting_key(state, class), 0, 0)[1]
    if tonumber(call('ZSCORE', state.keys .. 'silent', token)) <= cx.now then
      room.remove(state, room.place(state, token))
      state.totals[6] = state.totals[6] + 1
      return false
    end
  end
  state.virtual_time = state.tags[class + 1]
  state.tags[class + 1] = state.virtual_time + stride(state, class)
  room.activate(state, class, cx.now + state.active_ttl_ms * 1000)
  state.totals[2] = state.totals[2] + 1
  return true
end

-- The position of a waiter, from 1; nil before the room has opened.
function room.position(state, place)
  if room.is_before_opening(state.phase) then return nil end
  local class = place.class
  local rank = place.rank or call('ZRANK', room.waiting_key(state, class), place.token)
  if #state.weights == 1 then return rank + 1 end
  local due, position = state.tags[class + 1] + rank * stride(state, class), rank + 1
  for other = 0, #state.weights - 1 do
    local distance = due - state.tags[other + 1]
    if other ~= class and distance >= 0 then
      local before = ceil(distance / stride(state, other))
      -- Of two classes that are due at the same time, the first is served first.
      if other < class and distance % stride(state, other) == 0 then before = before + 1 end
      position = position + min(before, room.waiting_in(state, other))
    end
  end
  return position
end

-- The window of measured admissions as of now: when it began, its admissions, those of the window before
-- it, and the length of that one.
function room.turned_window(now, at, count, count_before, before_ms)
  local elapsed_ms = floor(max(now - at, 0) / 1000)
  if elapsed_ms < ROOM_WINDOW_MS then return at, count, count_before, before_ms end
  if elapsed_ms < 2 * ROOM_WINDOW_MS then return at + ROOM_WINDOW_MS * 1000, 0, count, ROOM_WINDOW_MS end
  return now, 0, 0, 0
end

-- Admissions that were measured lately, and in how many milliseconds: those of the turned window.
function room.measured(now, at, count, count_before, before_ms)
  local elapsed_ms = floor(max(now - at, 0) / 1000)
  if elapsed_ms < ROOM_WINDOW_MS then return count + count_before, max(before_ms + elapsed_ms, ROOM_WINDOW_MS) end
  if elapsed_ms < 2 * ROOM_WINDOW_MS then return count, elapsed_ms end
  return 0, ROOM_WINDOW_MS
end

-- Both ends of the time until a waiter at this position is admitted, or nil.
function room.eta(position, admitted, ms)
  if admitted == 0 then return nil end
  local spread = floor(math.sqrt(4 * admitted))
  return floor(position * ms / (admitted + spread)), ceil(position * ms / max(admitted - spread, 1))
end

-- When a waiter at this position polls again, of `waiting` waiters that share the polls in a second.
function room.next_poll_ms(polls, waiting, position, least_ms)
  if position and position <= max(floor(polls / ROOM_FRONT_POLLS), 1) then return ROOM_POLL_MS_MIN end
  local shared = ceil(waiting * 1000 * ROOM_FRONT_POLLS / (polls * (ROOM_FRONT_POLLS - 1)))
  shared = min(max(shared, ROOM_POLL_MS_MIN), ROOM_POLL_MS_MAX)
  return least_ms and min(max(least_ms, ROOM_POLL_MS_MIN), shared) or shared
end
