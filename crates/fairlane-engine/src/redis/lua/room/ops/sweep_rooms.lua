#!lua flags=allow-oom
-- sweep_rooms: brings rooms up to date that no other command reaches.
-- Key: the partition.

function room.ops.sweep_rooms(cx, command)
  room.read_shared(cx)
  -- No room was ever used, and the user may have no permission for their keys.
  if not cx.rooms_used then return {rooms = 0} end
  local deadlines, swept, moved = cx.rooms .. 'room-deadlines', 0, 0
  local name, at = unpack(call('ZRANGE', deadlines, 0, 0, 'WITHSCORES'))
  while swept < command.rooms_max and moved < ROOM_STEP_PLACES_MAX and name and tonumber(at) <= cx.now do
    local state = room.take(cx, name)
    room.store(cx, state)
    swept, moved = swept + 1, moved + state.moved
    name, at = unpack(call('ZRANGE', deadlines, 0, 0, 'WITHSCORES'))
  end
  return {rooms = swept, next_in_us = at and max(tonumber(at) - cx.now, 0)}
end
