#!lua flags=allow-oom,no-writes
-- inspect_queue: reads the queue's settings, counts and types. Read-only.
-- Key: the partition.
-- Arguments: [1] time, [2…] the settings' fields.
-- Replies {settings in the requested order, backlog, waiting, in flight, parked, completed, failed,
-- stored bytes, active groups, aggregating, sweeping, saved spins, active ×3, types…}.

function queue.ops.inspect_queue(cx)
  local fields = {'backlog', 'completed', 'saved_spins', 'stored_bytes', unpack(cx.arguments, 2)}
  local reply, active, in_flight = {}, {0, 0, 0}, 0
  kernel.read_fields(cx, fields)
  for index = 5, #fields do
    local value = cx.partition[fields[index]]
    reply[#reply + 1] = type(value) == 'number' and text(value) or value
  end
  local types_known = call('SMEMBERS', cx.prefix .. 'types')
  table.sort(types_known, precedes)
  for _, known in ipairs(types_known) do
    local state = queue.type_state(cx, known)
    in_flight = in_flight + state.in_flight
    for level = 0, 2 do active[level + 1] = active[level + 1] + state[level].active end
  end
  for _, item in ipairs({
    text(cx.partition.backlog), call('ZCARD', cx.prefix .. 'non-ready-queue'), text(in_flight),
    call('ZCARD', cx.prefix .. 'parked'), text(cx.partition.completed), call('ZCARD', cx.prefix .. 'failed'),
    text(cx.partition.stored_bytes), call('ZCARD', cx.prefix .. 'active-groups'),
    call('ZCARD', cx.prefix .. 'aggregating'), call('LLEN', cx.prefix .. 'sweeping'),
    text(cx.partition.saved_spins), active[1], active[2], active[3],
  }) do reply[#reply + 1] = item end
  for _, known in ipairs(types_known) do reply[#reply + 1] = known end
  return reply
end
