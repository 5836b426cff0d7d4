#!lua flags=allow-oom,no-writes
-- inspect_bulk: reads one bulk action. Read-only.
-- Key: the partition.
-- Arguments: [1] time, [2] group, [3] bulk action.
-- Replies the fields of `show_bulk`, or {} if it does not exist.

function queue.ops.inspect_bulk(cx)
  local name = cx.arguments[2]
  local number = queue.bulk_number(cx, name, cx.arguments[3])
  return number and queue.show_bulk({}, queue.bulk_state(cx, number)) or {}
end
