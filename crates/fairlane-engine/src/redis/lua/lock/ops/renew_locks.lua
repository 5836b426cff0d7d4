#!lua flags=allow-oom
-- renew_locks: extends the leases of locks that the caller holds.
-- Key: the partition.

local function renew(cx, wanted)
  local state = lock.take(cx, wanted.name)
  if not state then return 'Lost' end
  local holder, renewal = lock.holder(state, wanted.token), 'Lost'
  if holder then
    lock.extend(cx, state, holder, wanted.ttl_ms)
    renewal = {Renewed = {remaining_us = max(holder.ends - cx.now, 0)}}
  end
  lock.store(cx, state)
  return renewal
end

function lock.ops.renew_locks(cx, command)
  local renewals = {}
  for index, wanted in ipairs(command.locks) do renewals[index] = renew(cx, wanted) end
  return {renewals = renewals}
end
