#!lua flags=allow-oom,no-writes
-- list_bulks: lists a group's bulk actions. Read-only.
-- Key: the partition.
-- Arguments: [1] time, [2] group, [3] after number, [4] limit, [5] which (bulks unfinished).
-- Replies {next number or '', fields of `show_bulk` for each…}.

function queue.ops.list_bulks(cx)
  local name = cx.arguments[2]
  local after, limit, key = cx.arguments[3], tonumber(cx.arguments[4]),
    cx.prefix .. 'group:' .. name .. ':' .. cx.arguments[5]
  local page = call('ZRANGE', key, '(' .. after, '+inf', 'BYSCORE', 'LIMIT', 0, limit + 1, 'WITHSCORES')
  local shown, reply = min(#page / 2, limit), {''}
  if #page / 2 > limit then reply[1] = text(tonumber(page[2 * limit])) end
  for index = 1, shown do queue.show_bulk(reply, queue.bulk_state(cx, text(tonumber(page[2 * index])))) end
  return reply
end
