#!lua flags=allow-oom
-- promote: returns due jobs to their lanes, where fair order and gates apply again.
-- Key: the partition.
-- Arguments: [1] time, [2] most jobs.
-- Replies {jobs moved, µs until the next is due or ''}.
local FIELDS = {'sequence', 'classic', 'alpha'}

function queue.ops.promote(cx)
  kernel.read_partition(cx, FIELDS)
  local moved = queue.promote_due(cx, tonumber(cx.arguments[2]))
  local wake_at = queue.first_score(cx, 'non-ready-queue')
  queue.write_all(cx)
  return {moved, wake_at and text(wake_at - cx.now) or ''}
end
