#!lua flags=allow-oom,no-writes
-- list_groups: lists the groups that have unfinished jobs, by name. Read-only.
-- KEYS[1] the partition.
-- ARGV[1] time, [2] after ('' first), [3] limit.
-- Replies {name, backlog, in flight, waiting, total, done, backoff in ms, limits …}.
--@include base
--@include rate
--@include lane
--@include write
--@include order
--@include waiting
--@include downstream
--@include bulk
--@include congestion
--@include views
local name = ARGV[2]
local from, reply = name == '' and '-' or '(' .. name, {}
for _, member in ipairs(call('ZRANGE', prefix .. 'active-groups', from, '+', 'BYLEX', 'LIMIT', 0, ARGV[3])) do
  local group = group_state(member)
  local known = record(group)
  reply[#reply + 1] = member
  for _, number in ipairs({group.backlog, group.in_flight, known.waiting, known.total, group.done, known.backoff}) do
    reply[#reply + 1] = text(number)
  end
  reply[#reply + 1] = limits_text(group)
end
return reply
