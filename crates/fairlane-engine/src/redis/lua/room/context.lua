-- The state of a call on waiting rooms.

-- Begins a call. With the default prefix on one server, `rooms` is empty: the waiters of the room
-- `default` are then in `queue:waiting`.
function room.begin(keys, arguments)
  local cx = kernel.begin(keys, arguments)
  cx.rooms = cx.prefix == 'DEFAULT_PREFIX' and '' or cx.prefix
  return cx
end

-- Checks the partition before the first write, and reads whether it ever had a room.
function room.read_shared(cx)
  local version, used = unpack(call('HMGET', cx.partition_key, 'version', 'rooms_used'))
  kernel.check_version(version)
  cx.rooms_used = used
end
