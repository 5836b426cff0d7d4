-- What users and operators see of a room.

local PHASES = {open = 'Open', closed = 'Closed', prequeue = 'Prequeue', frozen = 'Frozen'}

function room.view_phase(phase)
  return PHASES[phase]
end

-- Places that are active now.
function room.active_now(cx, state)
  local first = state.firsts.active
  if first and first > cx.now then return room.active(state) end
  return call('ZCOUNT', state.keys .. 'active', '(' .. text(cx.now), '+inf')
end

-- A place: Waiting, Active or Unknown. `place` is that of the token, if it has one.
function room.view_place(cx, state, place)
  if not place then return 'Unknown' end
  if not place.class then
    local ends = tonumber(call('ZSCORE', state.keys .. 'active', place.token))
    return ends > cx.now and {Active = {user = place.user, remaining_us = ends - cx.now, ['until'] = ends}} or 'Unknown'
  end
  local position = room.position(state, place)
  local eta = room.eta(cx, state, position)
  return {Waiting = {
    position = position, waiting = room.waiting(state), eta = eta,
    next_poll_ms = room.next_poll_ms(state, position, eta), paused = state.paused,
  }}
end

-- A place and the active places as text: the first letter is the state, and colons separate what
-- follows. A waiter has its position, all waiters, both ends of its wait, the time of its next poll and
-- the active places, and behind them the reason of a pause; an active place its remaining time, its end,
-- the active places and its user.
function room.status_text(view, active)
  if view == 'Unknown' then return 'U' .. active end
  local place = view.Active
  if place then
    return 'A' .. place.remaining_us .. ':' .. text(place['until']) .. ':' .. active .. ':' .. place.user
  end
  place = view.Waiting
  local eta = place.eta
  local wait = eta and eta.least_ms .. ':' .. eta.most_ms or '-:-'
  local fixed = 'W' .. (place.position or '-') .. ':' .. place.waiting .. ':' .. wait .. ':' .. place.next_poll_ms
  return fixed .. ':' .. active .. (place.paused and ':' .. place.paused or '')
end

-- Records a sign of life of a waiter that has seen this view of its place.
function room.see(cx, state, token, view)
  if type(view) ~= 'table' or not view.Waiting then return end
  room.keep(state, token, cx.now + (view.Waiting.next_poll_ms + state.retention_ms) * 1000)
end

local function revealed(state, value)
  return value ~= '' and not room.is_before_opening(state) and value or nil
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
  local admitted, ms = room.measured(cx, state)
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
