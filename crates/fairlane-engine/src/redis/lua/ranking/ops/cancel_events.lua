#!lua flags=allow-oom
-- cancel_events: takes events back, each once.
-- Key: the partition.

function ranking.ops.cancel_events(cx, command)
  return ranking.change(cx, command.board, 'cancel', command.events, false)
end
