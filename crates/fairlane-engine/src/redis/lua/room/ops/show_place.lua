#!lua flags=allow-oom,no-writes
-- show_place: shows the state of a place, without a sign of life. Read-only.
-- Key: the partition. Arguments: the time, the room, the token. Replies with a status as text.

-- The settings of a room with one class; captures the polls in a second.
local ONE_CLASS = '^%d+:%d+:%d+:(%d+):%d+:%d+:%d+:%d+$'

-- Most calls ask for a waiter in an open room with one class: they are answered without a table for the
-- call or the room.
function room.ops.show_place(keys, arguments)
  local now, rooms, name, token = kernel.time(arguments), room.prefix(keys[1]), arguments[2], arguments[3]
  local settings, phase, paused, tags, window = room.read(rooms, name)
  if not settings then return 'U0' end
  local queue_keys = room.queue_keys(rooms, name)
  local waiting_key = queue_keys .. 'waiting'
  local rank, polls = call('ZRANK', waiting_key, token), match(settings, ONE_CLASS)
  if not rank or not polls or room.is_before_opening(phase) then
    local cx = {now = now, rooms = rooms}
    local state = room.of_fields(cx, name, settings, phase, paused, tags, window)
    return (room.status_text(cx, state, room.ranked_place(state, token, rank)))
  end
  local position, waiting, least_ms, most_ms = rank + 1, call('ZCARD', waiting_key), nil, nil
  if not paused then least_ms, most_ms = room.eta(position, room.measured(now, room.window_of(window))) end
  local next_poll_ms = room.next_poll_ms(tonumber(polls), waiting, position, least_ms)
  -- Counting those that have ended, which are few, is faster than counting the others.
  local active_key = queue_keys .. 'active'
  local active = call('ZCARD', active_key) - call('ZCOUNT', active_key, '-inf', text(now))
  return room.waiter_text(position, waiting, least_ms, most_ms, next_poll_ms, active, paused)
end
