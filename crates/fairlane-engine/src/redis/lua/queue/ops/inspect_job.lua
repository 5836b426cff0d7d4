#!lua flags=allow-oom,no-writes
-- inspect_job: reads one job. Read-only.
-- Key: the partition.
-- Arguments: [1] time, [2] name (group:id).
-- Replies the view of `views.job`, or '' if the job does not exist.

function queue.ops.inspect_job(cx)
  return queue.view_job(cx, cx.arguments[2])
end
