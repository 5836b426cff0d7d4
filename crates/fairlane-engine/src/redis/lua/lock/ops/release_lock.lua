#!lua flags=allow-oom
-- release_lock: gives up a lock, or a place among its waiters.
-- Key: the partition.

function lock.ops.release_lock(cx, command)
  lock.read_shared(cx)
  local state = lock.take(cx, command.name)
  if not state then return 'NotHeld' end
  local holder, reply = lock.holder(state, command.token), 'NotHeld'
  local waiter = not holder and lock.waiter(state, command.token)
  if holder then
    lock.remove_holder(state, holder)
    lock.announce_release(cx, command.name)
    reply = 'Released'
  elseif waiter then
    lock.remove_waiter(cx, state, waiter)
    reply = 'Withdrawn'
  end
  lock.store(cx, state)
  lock.write_shared(cx)
  return reply
end
