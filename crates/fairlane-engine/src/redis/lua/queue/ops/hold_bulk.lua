#!lua flags=allow-oom
-- hold_bulk: sets the bulk action's jobs aside when their turn comes; running jobs continue.
-- Key: the partition.
-- Arguments: [1] time, [2] group, [3] bulk action.
-- Replies the fields of `show_bulk`, or {} if it does not exist.
local FIELDS = {'sequence'}

function queue.ops.hold_bulk(cx)
  local number = queue.bulk_number(cx, cx.arguments[2], cx.arguments[3])
  if not number then return {} end
  kernel.read_partition(cx, FIELDS)
  local bulk = queue.bulk_state(cx, number)
  if not queue.is_final(bulk) and bulk.state ~= 'AGGREGATING' then bulk.course = 'hold' end
  queue.write_all(cx)
  return queue.show_bulk({}, bulk)
end
