#!lua
-- set_board: makes a board, or changes how many events it remembers.
-- Key: the partition.

function ranking.ops.set_board(cx, command)
  ranking.read_shared(cx)
  local board, settings = ranking.load(cx, command.board), ranking.settings_text(command.settings)
  if board then
    local fixed = '^(.*):%d+$'
    if match(board.settings, fixed) ~= match(settings, fixed) then
      return {Different = {settings = ranking.view_settings(board)}}
    end
  else
    if call('ZCARD', cx.rankings .. 'ranking-names') >= BOARDS_MAX then return 'TooManyBoards' end
    board = ranking.new(cx, command.board)
  end
  board.settings = settings
  ranking.write(cx, board)
  return {Set = {is_new = board.is_new or false}}
end
