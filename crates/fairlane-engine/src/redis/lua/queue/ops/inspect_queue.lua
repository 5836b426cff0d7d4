#!lua flags=allow-oom,no-writes
-- inspect_queue: reads the queue's settings, counts and types. Read-only.
-- Key: the partition.

function queue.ops.inspect_queue(cx, command)
  local settings = queue.read_settings(cx,
    {'backlog', 'completed', 'saved_spins', 'stored_bytes', 'succeeded_total', 'dead_total'})
  local types, active, in_flight = call('SMEMBERS', cx.prefix .. 'types'), {0, 0, 0}, 0
  table.sort(types, precedes)
  for _, known in ipairs(types) do
    local state = queue.type_state(cx, known)
    in_flight = in_flight + state.in_flight
    for level = 0, 2 do active[level + 1] = active[level + 1] + state[level].active end
  end
  return {
    settings = settings, backlog = max(cx.partition.backlog, 0),
    waiting = call('ZCARD', cx.prefix .. 'non-ready-queue'), in_flight = max(in_flight, 0),
    parked_lanes = call('ZCARD', cx.prefix .. 'parked'), completed = max(cx.partition.completed, 0),
    failed = call('ZCARD', cx.prefix .. 'failed'), stored_bytes = max(cx.partition.stored_bytes, 0),
    active_groups = call('ZCARD', cx.prefix .. 'active-groups'),
    aggregating = call('ZCARD', cx.prefix .. 'aggregating'), sweeping = call('LLEN', cx.prefix .. 'sweeping'),
    saved_spins = cx.partition.saved_spins, active_lanes = active, types = types,
    succeeded_total = cx.partition.succeeded_total, dead_total = cx.partition.dead_total,
  }
end
