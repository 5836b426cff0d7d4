#!lua flags=allow-oom
-- make_due: makes waiting jobs of a group due now. They are read page by page from the far
-- end of their order.
-- Key: the partition.
-- Its cursor is the number of jobs that earlier pages read and left.
local FIELDS = {'sequence'}

function queue.ops.make_due(cx, command)
  local cursor, most, key = command.cursor, command.jobs_max, cx.prefix .. 'non-ready-queue'
  kernel.read_partition(cx, FIELDS)
  local page, moved, due = call('ZREVRANGE', key, text(cursor), text(cursor + most - 1), 'WITHSCORES'), 0, nil
  for index = 1, #page, 2 do
    local member = page[index]
    local name, group = match(member, '^%d:([^:]+):([^:]+):')
    due = tonumber(page[index + 1])
    if due > cx.now and (not command.group or command.group == group) then
      call('ZADD', key, text(cx.now), member)
      queue.push_token(cx, name)
      moved = moved + 1
    end
  end
  local seen = #page / 2
  local ends = seen < most or due <= cx.now
  queue.write_all(cx)
  return {moved = moved, next = not ends and cursor + seen - moved or nil}
end
