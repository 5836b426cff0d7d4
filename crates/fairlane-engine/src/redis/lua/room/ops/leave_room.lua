#!lua flags=allow-oom
-- leave_room: gives up a place, waiting or active.
-- Key: the partition.

function room.ops.leave_room(cx, command)
  room.read_shared(cx)
  local state = room.take(cx, command.room)
  if not state then return {was_there = false, active = 0} end
  local place = room.place(state, command.token)
  if place then
    room.complete(state)
    room.remove(state, place)
    state.totals[3] = state.totals[3] + 1
  end
  room.store(cx, state)
  return {was_there = place ~= nil, active = room.active_now(cx, state)}
end
