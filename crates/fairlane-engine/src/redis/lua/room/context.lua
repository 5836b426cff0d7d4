-- The state of a call on waiting rooms.

-- The prefix of the keys of rooms, from the key of the partition. It is empty with the default prefix on
-- one server: the waiters of the room `default` are then in `queue:waiting`.
function room.prefix(partition_key)
  local prefix = sub(partition_key, 1, -10)
  return prefix == 'DEFAULT_PREFIX' and '' or prefix
end

-- Begins a call.
function room.begin(keys, arguments)
  local cx = kernel.begin(keys, arguments)
  cx.rooms = room.prefix(keys[1])
  return cx
end

-- Checks the partition before the first write, and reads whether it ever had a room.
function room.read_shared(cx)
  local version, used = unpack(call('HMGET', cx.partition_key, 'version', 'rooms_used'))
  kernel.check_version(version)
  cx.rooms_used = used
end
