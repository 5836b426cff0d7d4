#!lua flags=allow-oom,no-writes
-- show_place: shows the state of a place, without a sign of life. Read-only.
-- Key: the partition. Arguments: the time, the room, the token. Replies with a status as text.

function room.ops.show_place(cx)
  local state = room.load(cx, cx.arguments[2])
  if not state then return 'U0' end
  local place = room.polled_place(state, cx.arguments[3])
  return room.status_text(room.view_place(cx, state, place), room.active_now(cx, state))
end
