#!lua flags=allow-oom
-- seal_bulk: closes a bulk action for new jobs, so that it can become complete.
-- Key: the partition.
-- Arguments: [1] time, [2] group, [3] bulk action, [4] jobs expected ('' any).
-- Replies {'sealed', fields of `show_bulk`…}, {'mismatch', jobs} or {'unknown'}.
local FIELDS = {'sequence'}

function queue.ops.seal_bulk(cx)
  local expected, number = cx.arguments[4], queue.bulk_number(cx, cx.arguments[2], cx.arguments[3])
  if not number then return {'unknown'} end
  kernel.read_partition(cx, FIELDS)
  local bulk = queue.bulk_state(cx, number)
  if bulk.sealed == 0 then
    if expected ~= '' and tonumber(expected) ~= bulk.total then return {'mismatch', text(bulk.total)} end
    bulk.sealed = 1
    queue.review_bulk(cx, bulk)
    queue.write_all(cx)
  end
  return queue.show_bulk({'sealed'}, bulk)
end
