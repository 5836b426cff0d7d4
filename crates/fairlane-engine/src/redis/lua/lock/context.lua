-- The state of a call on locks, and messages to waiters.

-- Begins a call. With the default prefix on one server, `locks` is empty: the key of a lock is then
-- `lock:<name>`.
function lock.begin(keys, arguments)
  local now, key = kernel.time(arguments), keys[1]
  local prefix = sub(key, 1, -10)
  return {
    now = now, arguments = arguments, partition_key = key, prefix = prefix,
    locks = prefix == 'DEFAULT_PREFIX' and '' or prefix,
  }
end

-- Reads the last fence of any lock, 0 if there was none. The first lock is written only to a partition
-- of our layout. A later layout that stores locks in another way must remove this key.
function lock.last_fence(cx)
  local fence = call('GET', cx.prefix .. 'lock-fence')
  if not fence then kernel.check_version(call('HGET', cx.partition_key, 'version')) end
  return tonumber(fence or 0)
end

-- The number of waiters for all locks.
function lock.all_waiters(cx)
  return tonumber(call('HGET', cx.partition_key, 'lock_waiters') or 0)
end

function lock.count_waiters(cx, change)
  call('HINCRBY', cx.partition_key, 'lock_waiters', change)
end

-- Counts leases that have run out, for the next sweep.
function lock.count_expired(cx, leases)
  call('HINCRBY', cx.partition_key, 'lock_expired', leases)
end

-- The leases that have run out since the last sweep.
function lock.take_expired(cx)
  local expired = tonumber(call('HGET', cx.partition_key, 'lock_expired') or 0)
  if expired > 0 then call('HDEL', cx.partition_key, 'lock_expired') end
  return expired
end

local function is_tagged(cx)
  return sub(cx.prefix, -4) == '{0}:'
end

-- Signals a process: a waiter's token, and for a grant token:fence:end. A message that the user may not
-- publish is lost, as one without a subscriber is.
function lock.signal(cx, process, message)
  try(is_tagged(cx) and 'SPUBLISH' or 'PUBLISH', 'lock:release:{0}:' .. process, message)
end

-- Tells other programs of a release, on one server.
function lock.announce_release(cx, name)
  if not is_tagged(cx) then try('PUBLISH', 'lock:release:' .. name, '') end
end

-- Keeps the waiters of a process alive for one slice.
function lock.attend(cx, process)
  call('ZADD', cx.locks .. 'lock-processes', text(cx.now + LOCK_SLICE_US), process)
end

-- For how much longer a process counts as alive; 0 or less if it does not.
function lock.alive_us(cx, process)
  local ends = call('ZSCORE', cx.locks .. 'lock-processes', process)
  return ends and tonumber(ends) - cx.now or 0
end
