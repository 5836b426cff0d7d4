#!lua flags=allow-oom,no-writes
-- inspect_group: reads one group and its lanes. Read-only.
-- Key: the partition.
-- Arguments: [1] time, [2] group.
-- Replies the view of `views.group`, or '' if the group does not exist.

function queue.ops.inspect_group(cx)
  return queue.view_group(cx, cx.arguments[2])
end
