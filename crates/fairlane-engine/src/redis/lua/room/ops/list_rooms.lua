#!lua flags=allow-oom,no-writes
-- list_rooms: lists rooms in the order of their names, page by page. Read-only.
-- Key: the partition.

function room.ops.list_rooms(cx, command)
  local from, most = command.after and '(' .. command.after or '-', command.rooms_max
  local names = call('ZRANGE', cx.rooms .. 'room-names', from, '+', 'BYLEX', 'LIMIT', 0, most + 1)
  local views = {}
  for index = 1, min(#names, most) do views[index] = room.view(cx, room.load(cx, names[index])) end
  return {rooms = views, next = #names > most and names[most] or nil}
end
