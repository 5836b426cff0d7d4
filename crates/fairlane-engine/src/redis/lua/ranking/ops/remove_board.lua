#!lua flags=allow-oom
-- remove_board: removes a board with its windows and seasons.
-- Key: the partition.

function ranking.ops.remove_board(cx, command)
  ranking.read_shared(cx)
  local board = ranking.load(cx, command.board)
  if not board then return {was_there = false} end
  for number = max(board.season - BOARD_SEASONS_KEPT, 1), board.season - 1 do
    call('UNLINK', board.base .. ':season:' .. text(number))
  end
  ranking.unlink(board.base)
  if board.staged then ranking.unlink(board.staged.base) end
  call('DEL', board.key)
  call('ZREM', cx.rankings .. 'ranking-names', board.name)
  call('ZREM', cx.rankings .. 'ranking-deadlines', board.name)
  return {was_there = true}
end
