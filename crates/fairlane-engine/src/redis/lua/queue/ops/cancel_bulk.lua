#!lua flags=allow-oom
-- cancel_bulk: replies at once, regardless of the number of jobs; they are dropped when their turn
-- comes or by sweep.
-- Key: the partition.
local FIELDS = {'sequence'}

function queue.ops.cancel_bulk(cx, command)
  local number = queue.bulk_number(cx, command.bulk.group, command.bulk.id)
  if not number then return nil end
  kernel.read_partition(cx, FIELDS)
  local bulk = queue.bulk_state(cx, number)
  if not queue.is_final(bulk) then queue.drop_bulk(cx, bulk, 'CANCELLED') end
  queue.write_all(cx)
  return queue.view_bulk(bulk)
end
