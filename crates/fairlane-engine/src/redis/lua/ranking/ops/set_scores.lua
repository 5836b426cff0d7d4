#!lua
-- set_scores: sets the values of members.
-- Key: the partition.

function ranking.ops.set_scores(cx, command)
  return ranking.change(cx, command.board, 'set', command.scores, command.ranks)
end
