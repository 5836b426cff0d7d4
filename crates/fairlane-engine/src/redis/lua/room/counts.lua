-- Counts and first members of the sets of a room. Each is read once in a call.

function room.waiting_key(state, class)
  return state.keys .. (class == 0 and 'waiting' or 'waiting:' .. class)
end

-- The number of waiters of a class.
function room.waiting_in(state, class)
  local count = state.counts[class]
  if not count then
    count = call('ZCARD', room.waiting_key(state, class))
    state.counts[class] = count
  end
  return count
end

-- The number of waiters of all classes.
function room.waiting(state)
  local sum = 0
  for class = 0, #state.weights - 1 do sum = sum + room.waiting_in(state, class) end
  return sum
end

-- The number of active places, including those that have ended and not been removed yet.
function room.active(state)
  state.active_count = state.active_count or call('ZCARD', state.keys .. 'active')
  return state.active_count
end

-- The score of the first member of `active` or `silent`, or nil.
function room.first(state, set)
  local first = state.firsts[set]
  if first == nil then
    first = tonumber(call('ZRANGE', state.keys .. set, 0, 0, 'WITHSCORES')[2] or -1)
    state.firsts[set] = first
  end
  return first >= 0 and first or nil
end
