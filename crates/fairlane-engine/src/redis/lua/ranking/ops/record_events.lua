#!lua
-- record_events: counts events, each once.
-- Key: the partition.

function ranking.ops.record_events(cx, command)
  return ranking.change(cx, command.board, 'record', command.events, command.ranks)
end
