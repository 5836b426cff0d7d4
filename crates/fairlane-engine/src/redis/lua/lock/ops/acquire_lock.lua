#!lua
-- acquire_lock: takes a lock if it is free, and otherwise joins its waiters if asked to.
-- Key: the partition.

local MODES = {Exclusive = 'exclusive', Read = 'read', Write = 'write'}

local function mode_and_kind(wanted)
  local mode = MODES[wanted]
  if not mode then return 'permit', 'semaphore:' .. text(wanted.Permit.of) end
  return mode, mode == 'exclusive' and mode or 'read-write'
end

local function held(cx, holder)
  return {Held = {fence = holder.fence, remaining_us = max(holder.ends - cx.now, 0)}}
end

local function wait(cx, state, command, waiter, mode)
  if not waiter and cx.waiters >= LOCK_WAITERS_MAX then return {Refused = 'TooManyWaiters'} end
  lock.attend(cx, command.process)
  if not waiter then
    waiter = {token = command.token, process = command.process, mode = mode}
    lock.add_waiter(cx, state, waiter)
  end
  local first = lock.claims(state) > 0 and lock.edge_claim(state, 0) or lock.first_waiting(state)
  return {Waiting = {position = waiter.place - first.place + 1, blocked = lock.view_blocked(cx, state)}}
end

local function acquire_from(cx, state, command)
  local holder = lock.holder(state, command.token)
  if holder then return held(cx, holder) end
  local mode, kind = mode_and_kind(command.mode)
  if lock.holders(state) == 0 and state.waiters == 0 then
    state.kind, state.count = kind, nil
  elseif state.kind ~= kind then
    return {Refused = {OtherKind = {in_use = lock.view_kind(state.kind), wanted = lock.view_kind(kind)}}}
  end
  local waiter = lock.waiter(state, command.token)
  if waiter and waiter.mode ~= mode then
    -- A token is meant for one acquisition. With another mode it begins a new one.
    lock.remove_waiter(cx, state, waiter)
    waiter = nil
  end
  if lock.may_hold(cx, state, waiter, mode, command.fair) then
    if waiter then lock.remove_waiter(cx, state, waiter) end
    return held(cx, lock.grant(cx, state, command, mode))
  end
  if not command.wait then return {Busy = lock.view_blocked(cx, state)} end
  return wait(cx, state, command, waiter, mode)
end

function lock.ops.acquire_lock(cx, command)
  lock.read_shared(cx)
  local state, reply = lock.take(cx, command.name), nil
  if state then
    reply = acquire_from(cx, state, command)
  else
    if call('ZCARD', cx.locks .. 'lock-names') >= LOCKS_MAX then return {Refused = 'TooManyLocks'} end
    local mode, kind = mode_and_kind(command.mode)
    state = lock.new(cx, command.name, kind)
    reply = held(cx, lock.grant(cx, state, command, mode))
  end
  lock.store(cx, state)
  lock.write_shared(cx)
  return reply
end
