#!lua flags=allow-oom
-- hold_bulk: sets the bulk action's jobs aside when their turn comes; running jobs continue.
-- Key: the partition.
local FIELDS = {'sequence'}

function queue.ops.hold_bulk(cx, command)
  local number = queue.bulk_number(cx, command.bulk.group, command.bulk.id)
  if not number then return nil end
  kernel.read_partition(cx, FIELDS)
  local bulk = queue.bulk_state(cx, number)
  if not queue.is_final(bulk) and bulk.state ~= 'AGGREGATING' then bulk.course = 'hold' end
  queue.write_all(cx)
  return queue.view_bulk(bulk)
end
