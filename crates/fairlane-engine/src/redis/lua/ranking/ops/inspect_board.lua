#!lua flags=allow-oom,no-writes
-- inspect_board: shows one board with its windows and seasons. Read-only.
-- Key: the partition.

function ranking.ops.inspect_board(cx, command)
  local board = ranking.load(cx, command.board)
  if not board then return nil end
  return {
    board = ranking.view(board), windows = ranking.view_windows(cx, board), seasons = ranking.view_seasons(board),
  }
end
