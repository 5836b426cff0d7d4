#!lua flags=allow-oom,no-writes
-- show_place: shows the state of a place, without a sign of life. Read-only.
-- Key: the partition.

function room.ops.show_place(cx, command)
  local state = room.load(cx, command.room)
  if not state then return {place = 'Unknown', active = 0} end
  local place = room.place(state, command.token)
  return {place = room.view_place(cx, state, place), active = room.active_now(cx, state)}
end
