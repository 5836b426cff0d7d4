#!lua flags=allow-oom
-- seal_bulk: closes a bulk action for new jobs, so that it can become complete.
-- Key: the partition.
local FIELDS = {'sequence'}

function queue.ops.seal_bulk(cx, command)
  local expected, number = command.expected, queue.bulk_number(cx, command.bulk.group, command.bulk.id)
  if not number then return 'Unknown' end
  kernel.read_partition(cx, FIELDS)
  local bulk = queue.bulk_state(cx, number)
  if bulk.sealed == 0 then
    if expected and expected ~= bulk.total then return {Mismatch = {total = bulk.total}} end
    bulk.sealed = 1
    queue.review_bulk(cx, bulk)
    queue.write_all(cx)
  end
  return {Sealed = queue.view_bulk(bulk)}
end
