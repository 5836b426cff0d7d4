#!lua flags=allow-oom,no-writes
-- list_bulks: lists a group's bulk actions. Read-only.
-- Key: the partition.

function queue.ops.list_bulks(cx, command)
  local limit, bulks = command.limit, {}
  local key = cx.prefix .. 'group:' .. command.group .. (command.unfinished and ':unfinished' or ':bulks')
  local page = call('ZRANGE', key, '(' .. text(command.after), '+inf', 'BYSCORE', 'LIMIT', 0, limit + 1,
    'WITHSCORES')
  for index = 1, min(#page / 2, limit) do
    bulks[index] = queue.view_bulk(queue.bulk_state(cx, text(tonumber(page[2 * index]))))
  end
  return {bulks = bulks, next = #page / 2 > limit and tonumber(page[2 * limit]) or nil}
end
