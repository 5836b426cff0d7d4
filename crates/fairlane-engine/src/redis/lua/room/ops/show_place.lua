#!lua flags=allow-oom,no-writes
-- show_place: shows the state of a place, without a sign of life. Read-only.
-- Key: the partition. Arguments: the time, the room, the token. Replies with a status as text.

-- The first settings of a room; captures the polls in a second. Commas separate the weights of its classes.
local POLLS = '^%d+:%d+:%d+:(%d+):'

-- Most calls ask for a waiter in an open room with one class: they are answered without a table for the
-- call or the room.
function room.ops.show_place(keys, arguments)
  local now, rooms, name, token = kernel.time(arguments), room.prefix(keys[1]), arguments[2], arguments[3]
  local queue_keys = room.queue_keys(rooms, name)
  local waiting_key, active_key = queue_keys .. 'waiting', queue_keys .. 'active'
  local settings, phase, window, paused =
    unpack(call('HMGET', rooms .. 'room:' .. name, 'settings', 'phase', 'window', 'paused'))
  if not settings then return 'U0' end
  local rank = call('ZRANK', waiting_key, token)
  if not rank or find(settings, ',', 1, true) or room.is_before_opening(phase) then
    local cx = {now = now, rooms = rooms}
    local state = room.load(cx, name)
    return (room.status_text(cx, state, room.ranked_place(state, token, rank)))
  end
  local position, waiting, least_ms, most_ms = rank + 1, call('ZCARD', waiting_key), nil, nil
  if not paused then least_ms, most_ms = room.eta(position, room.measured(now, room.window_of(window))) end
  local next_poll_ms = room.next_poll_ms(tonumber(match(settings, POLLS)), waiting, position, least_ms)
  -- Counting those that have ended, which are few, is faster than counting the others.
  local active = call('ZCARD', active_key) - call('ZCOUNT', active_key, '-inf', text(now))
  return room.waiter_text(position, waiting, least_ms, most_ms, next_poll_ms, active, paused)
end
