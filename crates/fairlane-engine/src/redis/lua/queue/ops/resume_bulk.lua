#!lua flags=allow-oom
-- resume_bulk: lets the jobs of a held bulk action run again; those on hold go to the
-- head of their lanes.
-- Key: the partition.
-- Arguments: [1] time, [2] group, [3] bulk action.
-- Replies the fields of `show_bulk`, or {} if it does not exist.
local FIELDS = {'sequence'}

function queue.ops.resume_bulk(cx)
  local number = queue.bulk_number(cx, cx.arguments[2], cx.arguments[3])
  if not number then return {} end
  kernel.read_partition(cx, FIELDS)
  local bulk = queue.bulk_state(cx, number)
  if bulk.course == 'hold' and not queue.is_final(bulk) then
    bulk.course = 'run'
    if call('EXISTS', bulk.key .. ':held') == 1 then queue.sweep_later(cx, bulk) end
  end
  queue.write_all(cx)
  return queue.show_bulk({}, bulk)
end
