#!lua flags=allow-oom
-- make_due: makes waiting jobs of a group due now. They are read page by page from the far
-- end of their order.
-- Key: the partition.
-- Arguments: [1] time, [2] group ('' all), [3] jobs that earlier pages read and left, [4] jobs to
-- read.
-- Replies {jobs made due, next cursor or ''}.
local FIELDS = {'sequence'}

function queue.ops.make_due(cx)
  local wanted, cursor, most, key = cx.arguments[2], tonumber(cx.arguments[3]), tonumber(cx.arguments[4]),
    cx.prefix .. 'non-ready-queue'
  kernel.read_partition(cx, FIELDS)
  local page, moved, due = call('ZREVRANGE', key, cursor, cursor + most - 1, 'WITHSCORES'), 0, nil
  for index = 1, #page, 2 do
    local member = page[index]
    local name, group = match(member, '^%d:([^:]+):([^:]+):')
    due = tonumber(page[index + 1])
    if due > cx.now and (wanted == '' or wanted == group) then
      call('ZADD', key, text(cx.now), member)
      queue.push_token(cx, name)
      moved = moved + 1
    end
  end
  local seen = #page / 2
  local ends = seen < most or due <= cx.now
  queue.write_all(cx)
  return {moved, ends and '' or text(cursor + seen - moved)}
end
