#!lua flags=allow-oom
-- resume_bulk: lets the jobs of a held bulk action run again; those on hold go to the
-- head of their lanes.
-- Key: the partition.
local FIELDS = {'sequence'}

function queue.ops.resume_bulk(cx, command)
  local number = queue.bulk_number(cx, command.bulk.group, command.bulk.id)
  if not number then return nil end
  kernel.read_partition(cx, FIELDS)
  local bulk = queue.bulk_state(cx, number)
  if bulk.course == 'hold' and not queue.is_final(bulk) then
    bulk.course = 'run'
    if call('EXISTS', bulk.key .. ':held') == 1 then queue.sweep_later(cx, bulk) end
  end
  queue.write_all(cx)
  return queue.view_bulk(bulk)
end
