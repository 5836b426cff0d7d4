#!lua flags=allow-oom,no-writes
-- list_snapshots: lists the newest snapshots of a group's congestion, oldest first. Read-only.
-- Key: the partition.
-- Arguments: [1] time, [2] group, [3] limit.
-- Replies {at:waiting:speed:backoff…}.

function queue.ops.list_snapshots(cx)
  return call('LRANGE', cx.prefix .. 'congestion:' .. cx.arguments[2] .. ':history',
    -tonumber(cx.arguments[3]), -1)
end
