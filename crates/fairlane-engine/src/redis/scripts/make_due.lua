#!lua flags=allow-oom
-- make_due: makes waiting jobs of a group due now. They are read page by page from the far
-- end of their order.
-- KEYS[1] the partition.
-- ARGV[1] time, [2] group ('' all), [3] jobs that earlier pages read and left, [4] jobs to read.
-- Replies {jobs made due, next cursor or ''}.
--@include base
--@include rate
--@include lane
--@include write
local wanted, cursor, most, key = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), prefix .. 'non-ready-queue'
read_partition({'sequence'})
local page, moved, due = call('ZREVRANGE', key, cursor, cursor + most - 1, 'WITHSCORES'), 0, nil
for index = 1, #page, 2 do
  local member = page[index]
  local name, group = match(member, '^%d:([^:]+):([^:]+):')
  due = tonumber(page[index + 1])
  if due > now and (wanted == '' or wanted == group) then
    call('ZADD', key, text(now), member)
    push_token(name)
    moved = moved + 1
  end
end
local seen = #page / 2
local ends = seen < most or due <= now
write_all()
return {moved, ends and '' or text(cursor + seen - moved)}
