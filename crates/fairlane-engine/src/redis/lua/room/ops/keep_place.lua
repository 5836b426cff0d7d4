#!lua flags=allow-oom
-- keep_place: a waiter's poll, which is its sign of life.
-- Key: the partition. Arguments: the time, the room, the token. Replies with a status as text.

function room.ops.keep_place(cx)
  room.read_shared(cx)
  local state, token = room.take(cx, cx.arguments[2]), cx.arguments[3]
  if not state then return 'U0' end
  local place = room.ranked_place(state, token, call('ZRANK', state.keys .. 'waiting', token))
  local status, next_poll_ms = room.status_text(cx, state, place)
  if next_poll_ms then room.see(cx, state, token, next_poll_ms) end
  room.store(cx, state)
  return status
end
