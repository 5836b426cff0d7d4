#!lua flags=allow-oom
-- release_lock: gives up a lock, or a place among its waiters.
-- Key: the partition. Arguments: the time; the name; the token.
-- Replies R (released), W (withdrawn) or N (not held).

-- The row of an exclusive lock without waiters, whose holder was not a waiter or has renewed it: the token
-- of the holder and the end of the lease.
local ALONE = '^exclusive:0:%d+:0:([^:]+):%d+:%d+:(%d+):%d+:%d+:%a+:[^:]*$'

-- Removes an exclusive lock that the caller holds and that has no waiters, without a table for it: this is
-- what most calls do. Returns whether it was one.
local function release_alone(cx, name, token, key, row)
  local owner, ends = match(row, ALONE)
  if owner ~= token or tonumber(ends) <= cx.now then return false end
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
