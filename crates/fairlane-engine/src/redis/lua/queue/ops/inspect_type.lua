#!lua flags=allow-oom,no-writes
-- inspect_type: reads one type. Read-only.
-- Key: the partition.

function queue.ops.inspect_type(cx, command)
  if call('SISMEMBER', cx.prefix .. 'types', command.type_id) == 0 then return nil end
  return queue.view_type(cx, command.type_id)
end
