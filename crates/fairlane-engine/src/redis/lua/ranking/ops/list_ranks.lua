#!lua flags=allow-oom,no-writes
-- list_ranks: lists a page of a board: its top, any other part, or the neighbours of a member.
-- Read-only.
-- Key: the partition.

function ranking.ops.list_ranks(cx, command)
  local board = ranking.load(cx, command.board)
  if not board then return nil end
  local key = ranking.standing_key(cx, board, command.standing)
  local page = {entries = {}, members = call('ZCARD', key), decimals = board.decimals}
  local from, around = command.start.Behind, command.start.Around
  if around then
    local position = ranking.position(board, key, around.member)
    from = position and max(position - around.before, 0)
  end
  if from then page.entries = ranking.page(board, key, from, command.members_max) end
  return page
end
