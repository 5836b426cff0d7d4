#!lua flags=allow-oom,no-writes
-- list_groups: lists the groups that have unfinished jobs, by name. Read-only.
-- Key: the partition.

function queue.ops.list_groups(cx, command)
  local from, key, lines = command.after and '(' .. command.after or '-', cx.prefix .. 'active-groups', {}
  for index, member in ipairs(call('ZRANGE', key, from, '+', 'BYLEX', 'LIMIT', 0, command.limit)) do
    lines[index] = queue.group_line(cx, member)
  end
  return lines
end
