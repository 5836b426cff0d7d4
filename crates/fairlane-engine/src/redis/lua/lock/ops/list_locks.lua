#!lua flags=allow-oom,no-writes
-- list_locks: lists locks in the order of their names, page by page. Read-only.
-- Key: the partition.

function lock.ops.list_locks(cx, command)
  local group, after, most = command.group and command.group .. ':' or '', command.after, command.locks_max
  local from = group == '' and '-' or '[' .. group
  if after and not precedes(after, group) then from = '(' .. after end
  -- No name has the byte 255.
  local to = group == '' and '+' or '(' .. group .. '\255'
  local names = call('ZRANGE', cx.locks .. 'lock-names', from, to, 'BYLEX', 'LIMIT', 0, most + 1)
  local views = {}
  for index = 1, min(#names, most) do views[#views + 1] = lock.view(cx, names[index]) end
  return {locks = views, next = #names > most and names[most] or nil}
end
