#!lua flags=allow-oom,no-writes
-- inspect_group: reads one group and its lanes. Read-only.
-- Key: the partition.

function queue.ops.inspect_group(cx, command)
  return queue.view_group(cx, command.group)
end
