#!lua flags=allow-oom,no-writes
-- show_ranks: shows the ranks of some members. Read-only.
-- Key: the partition.

function ranking.ops.show_ranks(cx, command)
  local board = ranking.load(cx, command.board)
  if not board then return nil end
  local key, entries = ranking.standing_key(cx, board, command.standing), {}
  for _, member in ipairs(command.members) do
    entries[#entries + 1] = ranking.entry_of(board, key, member)
  end
  return {entries = entries, members = call('ZCARD', key), decimals = board.decimals}
end
