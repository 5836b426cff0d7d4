#!lua flags=allow-oom
-- release_lock: gives up a lock, or a place among its waiters.
-- Key: the partition. Arguments: the time; the name; the token.
-- Replies R (released), W (withdrawn) or N (not held).

-- The row of an exclusive lock without waiters up to the token of its holder, and what follows the token up
-- to the name of the holder, with the end of the lease.
local ALONE, LEASE = '^exclusive:0:%d+:0:()', '^:%d+:%d+:(%d+):%d+:%d+:exclusive:()'

-- Removes an exclusive lock that the caller holds and that has no waiters, without a table for it: this is
-- what most calls do. Returns whether it was one. A colon behind the name of the holder shows that it was
-- granted the lock as a waiter and has not renewed it.
local function release_alone(cx, name, token, key, row)
  local at = match(row, ALONE)
  if not at or sub(row, at, at + #token - 1) ~= token then return false end
  local ends, holder_at = match(row, LEASE, at + #token)
  if not ends or tonumber(ends) <= cx.now or find(row, ':', holder_at, true) then return false end
  call('DEL', key)
  lock.remove_name(cx, name)
  lock.announce_release(cx, name)
  return true
end

function lock.ops.release_lock(cx)
  local _, name, token = unpack(cx.arguments)
  local key = cx.locks .. 'lock:' .. name
  local row = call('GET', key)
  if not row then return 'N' end
  if release_alone(cx, name, token, key, row) then return 'R' end
  local state = lock.take(cx, name, row)
  local holder, reply = lock.holder(state, token), 'N'
  local waiter = not holder and lock.waiter(state, token)
  if holder then
    lock.remove_holder(state, holder)
    lock.announce_release(cx, name)
    reply = 'R'
  elseif waiter then
    lock.remove_waiter(cx, state, waiter)
    reply = 'W'
  end
  lock.store(cx, state)
  return reply
end
