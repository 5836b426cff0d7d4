-- The places of a room: reading, adding, moving and removing them.

-- The class (or `active`) and the user of a token, or nil.
function room.place(state, token)
  local record = call('HGET', state.keys .. 'tokens', token)
  if not record then return nil end
  local class, user = match(record, '^(%w+):(.*)$')
  return {token = token, user = user, class = tonumber(class)}
end

-- The same for a poll: a rank among the waiters of class 0, which most are, says that it is one.
function room.ranked_place(state, token, rank)
  return rank and {token = token, class = 0, rank = rank} or room.place(state, token)
end

-- Moves the time at which a waiter is dropped.
function room.keep(state, token, at)
  call('ZADD', state.keys .. 'silent', text(at), token)
  state.firsts.silent = nil
end

-- Adds a waiter without the time at which it is dropped.
function room.add_waiter(state, token, user, class, number)
  local count = room.waiting_in(state, class)
  if count == 0 then state.tags[class + 1] = max(state.tags[class + 1], state.virtual_time) end
  call('ZADD', room.waiting_key(state, class), text(number), token)
  call('HSET', state.keys .. 'users', user, token)
  call('HSET', state.keys .. 'tokens', token, class .. ':' .. user)
  state.counts[class], state.changed = count + 1, true
end

function room.remove(state, place)
  if place.class then
    local count = room.waiting_in(state, place.class)
    call('ZREM', room.waiting_key(state, place.class), place.token)
    call('ZREM', state.keys .. 'silent', place.token)
    state.counts[place.class], state.firsts.silent = count - 1, nil
  else
    local count = room.active(state)
    call('ZREM', state.keys .. 'active', place.token)
    state.active_count, state.firsts.active = count - 1, nil
  end
  call('HDEL', state.keys .. 'users', place.user)
  call('HDEL', state.keys .. 'tokens', place.token)
  state.changed = true
end

-- Makes the first waiter of a class active.
function room.activate(state, class, ends)
  local waiting, active = room.waiting_in(state, class), room.active(state)
  local token = call('ZPOPMIN', room.waiting_key(state, class))[1]
  local place = room.place(state, token)
  call('ZREM', state.keys .. 'silent', token)
  call('ZADD', state.keys .. 'active', text(ends), token)
  call('HSET', state.keys .. 'tokens', token, 'active:' .. place.user)
  state.counts[class], state.active_count = waiting - 1, active + 1
  state.firsts.silent, state.firsts.active, state.changed = nil, nil, true
end
