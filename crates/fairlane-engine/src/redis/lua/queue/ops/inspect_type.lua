#!lua flags=allow-oom,no-writes
-- inspect_type: reads one type. Read-only.
-- Key: the partition.
-- Arguments: [1] time, [2] type.
-- Replies the view of `views.type`, or '' if the type does not exist.

function queue.ops.inspect_type(cx)
  if call('SISMEMBER', cx.prefix .. 'types', cx.arguments[2]) == 0 then return '' end
  return queue.view_type(cx, cx.arguments[2])
end
