#!lua flags=allow-oom
-- keep_place: a waiter's poll, which is its sign of life.
-- Key: the partition.

function room.ops.keep_place(cx, command)
  room.read_shared(cx)
  local state = room.take(cx, command.room)
  if not state then return {place = 'Unknown', active = 0} end
  local view = room.view_place(cx, state, room.place(state, command.token))
  room.see(cx, state, command.token, view)
  local active = room.active_now(cx, state)
  room.store(cx, state)
  return {place = view, active = active}
end
