#!lua flags=allow-oom,no-writes
-- inspect_queue: reads the queue's settings, counts and types. Read-only.
-- KEYS[1] the partition.
-- ARGV[1] time, [2…] the settings' fields.
-- Replies {settings in the requested order, backlog, waiting, in flight, parked, completed, failed,
-- stored bytes, active groups, aggregating, sweeping, saved spins, active ×3, types…}.
--@include base
--@include rate
--@include lane
--@include write
--@include order
--@include waiting
--@include downstream
--@include bulk
--@include congestion
--@include views
local fields, reply, active, in_flight = {'backlog', 'completed', 'saved_spins', 'stored_bytes', unpack(ARGV, 2)}, {}, {0, 0, 0}, 0
read_fields(fields)
for index = 5, #fields do
  local value = partition[fields[index]]
  reply[#reply + 1] = type(value) == 'number' and text(value) or value
end
local types_known = call('SMEMBERS', prefix .. 'types')
table.sort(types_known, precedes)
for _, known in ipairs(types_known) do
  local state = type_state(known)
  in_flight = in_flight + state.in_flight
  for level = 0, 2 do active[level + 1] = active[level + 1] + state[level].active end
end
for _, item in ipairs({
  text(partition.backlog), call('ZCARD', prefix .. 'non-ready-queue'), text(in_flight), call('ZCARD', prefix .. 'parked'),
  text(partition.completed), call('ZCARD', prefix .. 'failed'), text(partition.stored_bytes),
  call('ZCARD', prefix .. 'active-groups'), call('ZCARD', prefix .. 'aggregating'), call('LLEN', prefix .. 'sweeping'),
  text(partition.saved_spins), active[1], active[2], active[3],
}) do reply[#reply + 1] = item end
for _, known in ipairs(types_known) do reply[#reply + 1] = known end
return reply
