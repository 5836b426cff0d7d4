#!lua flags=allow-oom
-- keep_place: a waiter's poll, which is its sign of life.
-- Key: the partition. Arguments: the time, the room, the token. Replies with a status as text.

function room.ops.keep_place(cx)
  room.read_shared(cx)
  local state, token = room.take(cx, cx.arguments[2]), cx.arguments[3]
  if not state then return 'U0' end
  local view = room.view_place(cx, state, room.polled_place(state, token))
  room.see(cx, state, token, view)
  local active = room.active_now(cx, state)
  room.store(cx, state)
  return room.status_text(view, active)
end
