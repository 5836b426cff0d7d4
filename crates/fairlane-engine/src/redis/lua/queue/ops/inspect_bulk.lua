#!lua flags=allow-oom,no-writes
-- inspect_bulk: reads one bulk action. Read-only.
-- Key: the partition.

function queue.ops.inspect_bulk(cx, command)
  local number = queue.bulk_number(cx, command.bulk.group, command.bulk.id)
  return number and queue.view_bulk(queue.bulk_state(cx, number))
end
