#!lua flags=allow-oom,no-writes
-- list_groups: lists the groups that have unfinished jobs, by name. Read-only.
-- Key: the partition.
-- Arguments: [1] time, [2] after ('' first), [3] limit.
-- Replies {name, backlog, in flight, waiting, total, done, backoff in ms, limits …}.

function queue.ops.list_groups(cx)
  local name = cx.arguments[2]
  local from, key, reply = name == '' and '-' or '(' .. name, cx.prefix .. 'active-groups', {}
  for _, member in ipairs(call('ZRANGE', key, from, '+', 'BYLEX', 'LIMIT', 0, cx.arguments[3])) do
    local group = queue.group_state(cx, member)
    local known = queue.record(group)
    reply[#reply + 1] = member
    local counts = {group.backlog, group.in_flight, known.waiting, known.total, group.done, known.backoff}
    for _, count in ipairs(counts) do reply[#reply + 1] = text(count) end
    reply[#reply + 1] = queue.limits_text(group)
  end
  return reply
end
