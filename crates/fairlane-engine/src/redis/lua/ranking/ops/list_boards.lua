#!lua flags=allow-oom,no-writes
-- list_boards: lists boards in the order of their names, page by page. Read-only.
-- Key: the partition.

function ranking.ops.list_boards(cx, command)
  local from, most = command.after and '(' .. command.after or '-', command.boards_max
  local names = call('ZRANGE', cx.rankings .. 'ranking-names', from, '+', 'BYLEX', 'LIMIT', 0, most + 1)
  local views = {}
  for index = 1, min(#names, most) do views[index] = ranking.view(ranking.load(cx, names[index])) end
  return {boards = views, next = #names > most and names[most] or nil}
end
