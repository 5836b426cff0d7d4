#!lua flags=allow-oom
-- attend_locks: keeps the waiters of a process alive, and reports locks that are reserved for them or
-- were granted to them.
-- Key: the partition.

function lock.ops.attend_locks(cx, command)
  local claims = {}
  if lock.all_waiters(cx) > 0 then lock.attend(cx, command.process) end
  local own = call('ZRANGE', cx.locks .. 'lock-process:' .. command.process, 0, ATTEND_CLAIMS_MAX - 1)
  for index, member in ipairs(own) do
    local name, token = match(member, '^(.*)\n(.*)$')
    claims[index] = {name = name, token = token}
  end
  return {claims = claims, time = cx.now}
end
