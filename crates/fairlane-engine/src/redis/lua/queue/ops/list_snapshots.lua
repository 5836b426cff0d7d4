#!lua flags=allow-oom,no-writes
-- list_snapshots: lists the newest snapshots of a group's congestion, oldest first. Read-only.
-- Key: the partition.

function queue.ops.list_snapshots(cx, command)
  local snapshots = call('LRANGE', cx.prefix .. 'congestion:' .. command.group .. ':history', -command.limit,
    -1)
  for index, entry in ipairs(snapshots) do
    local at, waiting, speed, backoff_ms = match(entry, '^(%d+):(%d+):(%d+):(%d+)$')
    snapshots[index] = {
      at = tonumber(at), waiting = tonumber(waiting), speed = tonumber(speed),
      backoff_ms = tonumber(backoff_ms),
    }
  end
  return snapshots
end
