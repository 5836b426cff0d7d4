#!lua flags=allow-oom,no-writes
-- inspect_job: reads one job. Read-only.
-- Key: the partition.

function queue.ops.inspect_job(cx, command)
  local job = queue.read_job(cx, command.job.group, command.job.id)
  return job and queue.view_job(cx, job)
end
