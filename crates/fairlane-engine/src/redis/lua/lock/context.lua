-- The state of a call on locks, and messages to waiters.

-- Begins a call. With the default prefix on one server, `locks` is empty: the key of a lock is then
-- `lock:<name>`.
function lock.begin(keys, arguments)
  local cx = kernel.begin(keys, arguments)
  cx.locks = cx.prefix == 'DEFAULT_PREFIX' and '' or cx.prefix
  return cx
end

-- Reads what all locks share, before the first write: the last fence and the number of waiters.
function lock.read_shared(cx)
  local version, fence, waiters = unpack(call('HMGET', cx.partition_key, 'version', 'lock_fence', 'lock_waiters'))
  kernel.check_version(version)
  cx.fence, cx.waiters = tonumber(fence or 0), tonumber(waiters or 0)
  cx.fence_was, cx.waiters_was = cx.fence, cx.waiters
end

function lock.write_shared(cx)
  if cx.waiters ~= cx.waiters_was then call('HSET', cx.partition_key, 'lock_waiters', text(cx.waiters)) end
  if cx.fence ~= cx.fence_was then call('HSET', cx.partition_key, 'lock_fence', text(cx.fence)) end
end

local function is_tagged(cx)
  return sub(cx.prefix, -4) == '{0}:'
end

-- Signals a waiter. A message that the user may not publish is lost, as one without a subscriber is.
function lock.signal(cx, process, token)
  try(is_tagged(cx) and 'SPUBLISH' or 'PUBLISH', 'lock:release:{0}:' .. process, token)
end

-- Tells other programs of a release, on one server.
function lock.announce_release(cx, name)
  if not is_tagged(cx) then try('PUBLISH', 'lock:release:' .. name, '') end
end

-- Keeps the waiters of a process alive for one slice.
function lock.attend(cx, process)
  call('ZADD', cx.locks .. 'lock-processes', text(cx.now + LOCK_SLICE_US), process)
end

function lock.is_alive(cx, process)
  local ends = call('ZSCORE', cx.locks .. 'lock-processes', process)
  return ends and tonumber(ends) > cx.now
end
