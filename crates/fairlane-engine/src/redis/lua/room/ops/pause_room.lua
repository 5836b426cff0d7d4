#!lua flags=allow-oom
-- pause_room: stops and resumes admission.
-- Key: the partition.

function room.ops.pause_room(cx, command)
  room.read_shared(cx)
  local state = room.take_or_new(cx, command.room)
  if not state then return 'TooManyRooms' end
  room.complete(state)
  state.paused, state.changed = command.reason, true
  room.store(cx, state)
  return {Set = {active = room.active_now(cx, state)}}
end
