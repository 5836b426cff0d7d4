#!lua flags=allow-oom
-- sweep_locks: ends leases and claims that have run out, so that locks pass on although no one asks
-- for them.
-- Key: the partition.

local function forget_processes(cx, most)
  local key = cx.locks .. 'lock-processes'
  local gone = call('ZRANGE', key, '-inf', text(cx.now), 'BYSCORE', 'LIMIT', 0, most)
  if gone[1] then call('ZREM', key, unpack(gone)) end
end

function lock.ops.sweep_locks(cx, command)
  -- No lock was ever used, and the user may have no permission for their keys.
  if lock.last_fence(cx) == 0 then return {locks = 0, expired = 0} end
  local deadlines, swept, most = cx.locks .. 'lock-deadlines', 0, command.locks_max
  local name, at = unpack(call('ZRANGE', deadlines, 0, 0, 'WITHSCORES'))
  while swept < most and name and tonumber(at) <= cx.now do
    local state = lock.take(cx, name)
    if state then lock.store(cx, state) else lock.remove_leftovers(cx, name) end
    swept = swept + 1
    name, at = unpack(call('ZRANGE', deadlines, 0, 0, 'WITHSCORES'))
  end
  forget_processes(cx, most)
  return {locks = swept, expired = lock.take_expired(cx), next_in_us = at and max(tonumber(at) - cx.now, 0)}
end
