#!lua flags=allow-oom,no-writes
-- inspect_lock: shows the state of one lock. Read-only.
-- Key: the partition.

function lock.ops.inspect_lock(cx, command)
  return lock.view(cx, command.name)
end
