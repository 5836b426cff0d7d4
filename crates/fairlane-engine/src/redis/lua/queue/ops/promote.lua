#!lua flags=allow-oom
-- promote: returns due jobs to their lanes, where fair order and gates apply again.
-- Key: the partition.
local FIELDS = {'sequence', 'classic', 'alpha'}

function queue.ops.promote(cx, command)
  kernel.read_partition(cx, FIELDS)
  local moved = queue.promote_due(cx, command.jobs_max)
  local wake_at = queue.first_score(cx, 'non-ready-queue')
  queue.write_all(cx)
  return {moved = moved, wake_in_us = wake_at and max(wake_at - cx.now, 0)}
end
