#!lua flags=allow-oom,no-writes
-- inspect_room: shows the state of one room. Read-only.
-- Key: the partition.

function room.ops.inspect_room(cx, command)
  local state = room.load(cx, command.room)
  return state and room.view(cx, state)
end
