-- What users and operators see of a room.

local PHASES = {open = 'Open', closed = 'Closed', prequeue = 'Prequeue', frozen = 'Frozen'}

function room.view_phase(phase)
  return PHASES[phase]
end

-- Places that are active now.
function room.active_now(cx, state)
  local first = state.firsts.active
  if first and first > cx.now then return room.active(state) end
  return room.active(state) - call('ZCOUNT', state.keys .. 'active', '-inf', text(cx.now))
end

-- What a waiter sees: its position (nil before the opening), all waiters, both ends of its wait (nil if
-- they are not known), and when it polls again.
local function view_waiter(cx, state, place)
  local position, waiting, least_ms, most_ms = room.position(state, place), room.waiting(state), nil, nil
  if position and not state.paused then
    least_ms, most_ms = room.eta(position, room.measured(cx.now, unpack(state.window)))
  end
  return position, waiting, least_ms, most_ms, room.next_poll_ms(state.polls, waiting, position, least_ms)
end

-- The end of an active place, or nil if it is over.
local function active_until(cx, state, place)
  local ends = tonumber(call('ZSCORE', state.keys .. 'active', place.token))
  return ends > cx.now and ends or nil
end

-- A place: Waiting, Active or Unknown. `place` is that of the token, if it has one.
function room.view_place(cx, state, place)
  if not place then return 'Unknown' end
  if not place.class then
    local ends = active_until(cx, state, place)
    return ends and {Active = {user = place.user, remaining_us = ends - cx.now, ['until'] = ends}} or 'Unknown'
  end
  local position, waiting, least_ms, most_ms, next_poll_ms = view_waiter(cx, state, place)
  return {Waiting = {
    position = position, waiting = waiting, eta = least_ms and {least_ms = least_ms, most_ms = most_ms},
    next_poll_ms = next_poll_ms, paused = state.paused,
  }}
end

-- A waiter and the active places as text, see `status_text`.
function room.waiter_text(position, waiting, least_ms, most_ms, next_poll_ms, active, paused)
  local fixed
  if least_ms then
    fixed = format('W%d:%d:%d:%d:%d:%d', position, waiting, least_ms, most_ms, next_poll_ms, active)
  else
    fixed = format('W%s:%d:-:-:%d:%d', position and text(position) or '-', waiting, next_poll_ms, active)
  end
  return paused and fixed .. ':' .. paused or fixed
end

-- A place and the active places as text: the first letter is the state, and colons separate what
-- follows. A waiter has its position, all waiters, both ends of its wait, the time of its next poll and
-- the active places, and behind them the reason of a pause; an active place its remaining time, its end,
-- the active places and its user. Returns also when a waiter polls again.
function room.status_text(cx, state, place)
  local active = room.active_now(cx, state)
  if place and place.class then
    local position, waiting, least_ms, most_ms, next_poll_ms = view_waiter(cx, state, place)
    return room.waiter_text(position, waiting, least_ms, most_ms, next_poll_ms, active, state.paused), next_poll_ms
  end
  local ends = place and active_until(cx, state, place)
  if not ends then return 'U' .. active end
  return format('A%d:%d:%d:%s', ends - cx.now, ends, active, place.user)
end

-- Records a sign of life of a waiter that was asked to poll again after this time.
function room.see(cx, state, token, next_poll_ms)
  room.keep(state, token, cx.now + (next_poll_ms + state.retention_ms) * 1000)
end

local function revealed(state, value)
  return value ~= '' and not room.is_before_opening(state.phase) and value or nil
end

local function view_draw(state)
  if state.commitment == '' then return nil end
  return {
    commitment = state.commitment, seed = revealed(state, state.seed), digest = revealed(state, state.digest),
    tickets = state.tickets,
  }
end

-- The whole room.
function room.view(cx, state)
  room.complete(state)
  local waiting, totals = {}, state.totals
  for class = 0, #state.weights - 1 do waiting[class + 1] = room.waiting_in(state, class) end
  local admitted, ms = room.measured(cx.now, unpack(state.window))
  local closed_us = max(state.closed_until - cx.now, 0)
  return {
    room = state.name, phase = PHASES[state.phase], paused = state.paused,
    settings = {
      max_active = state.max_active, active_ttl_ms = state.active_ttl_ms, retention_ms = state.retention_ms,
      polls_per_second = state.polls, rate = kernel.rate_of(state.rate), weights = state.weights,
    },
    active = room.active_now(cx, state), waiting = waiting, admitted_lately = admitted, measured_ms = ms,
    rate_milli = queue.rate_milli(cx, state), closed_us = closed_us, draw = view_draw(state),
    totals = {
      joined = totals[1], admitted = totals[2], left = totals[3], revoked = totals[4], expired = totals[5],
      silent = totals[6],
    },
  }
end
