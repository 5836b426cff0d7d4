#!lua flags=allow-oom,no-writes
-- list_groups: lists the groups that have unfinished jobs, by name. Read-only.
-- Key: the partition.

function queue.ops.list_groups(cx, command)
  local from, key, lines = command.after and '(' .. command.after or '-', cx.prefix .. 'active-groups', {}
  for index, member in ipairs(call('ZRANGE', key, from, '+', 'BYLEX', 'LIMIT', 0, command.limit)) do
    local group = queue.group_state(cx, member)
    local known = queue.record(group)
    lines[index] = {
      group = member, backlog = max(group.backlog, 0), in_flight = max(group.in_flight, 0),
      waiting = max(known.waiting, 0), total = known.total, done = group.done, backoff_ms = known.backoff,
      settings = queue.group_settings(group),
    }
  end
  return lines
end
