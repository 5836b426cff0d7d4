#!lua
-- acquire_lock: takes a lock if it is free, and otherwise joins its waiters if asked to.
-- Key: the partition. Arguments: the time; the name; the token; the process; the holder; the mode, for a
-- permit the kind of its lock; the ttl, the delay and the longest hold in ms (0: none); 0, 1 to wait, 2 to
-- be fair or 3 for both.
-- Replies fence:remaining_us if the caller holds the lock, otherwise core's reply packed.

-- The kinds of locks by the modes of their holders, except for permits.
local KINDS = {exclusive = 'exclusive', read = 'read-write', write = 'read-write'}

local function held(cx, holder)
  return format('%d:%d', holder.fence, max(holder.ends - cx.now, 0))
end

local function lasts(ms)
  return ms * 1000 >= LOCK_SLICE_US
end

-- A waiter, with the terms of its hold if the lock can be granted to it for one slice.
local function new_waiter(command)
  local waiter = {
    token = command.token, process = command.process, mode = command.mode,
    losses = command.fair and LOCK_LOSSES_MAX or 0,
  }
  if command.mode == 'exclusive' and lasts(command.ttl_ms) and (command.hold_ms == '0' or lasts(command.hold_ms)) then
    waiter.delay_ms, waiter.hold_ms, waiter.holder = command.delay_ms, command.hold_ms, command.holder
  end
  return waiter
end

local function wait(cx, state, command, waiter)
  if not waiter and lock.all_waiters(cx) >= LOCK_WAITERS_MAX then return {Refused = 'TooManyWaiters'} end
  lock.attend(cx, command.process)
  if not waiter then
    waiter = new_waiter(command)
    lock.add_waiter(cx, state, waiter)
  end
  local first = lock.claims(state) > 0 and lock.edge_claim(state, 0) or lock.first_waiting(state)
  return {Waiting = {position = waiter.place - first.place + 1, blocked = lock.view_blocked(cx, state)}}
end

local function acquire_from(cx, state, command)
  local waiter = lock.waiter(state, command.token)
  if not (waiter and lock.is_next(state, waiter)) then
    -- Waiters that are next come before the caller.
    lock.claim_for_waiters(cx, state)
    waiter = waiter and lock.waiter(state, command.token)
  end
  local holder = lock.holder(state, command.token)
  if holder then
    -- The lock was granted to it as a waiter.
    if holder.signalled then lock.extend(cx, state, holder, command.ttl_ms) end
    return held(cx, holder)
  end
  local mode, kind = command.mode, command.kind
  if lock.holders(state) == 0 and state.waiters == 0 then
    state.kind, state.count = kind, nil
  elseif state.kind ~= kind then
    return {Refused = {OtherKind = {in_use = lock.view_kind(state.kind), wanted = lock.view_kind(kind)}}}
  end
  if waiter and waiter.mode ~= mode then
    -- A token is meant for one acquisition. With another mode it begins a new one.
    lock.remove_waiter(cx, state, waiter)
    waiter = nil
  end
  if lock.may_hold(cx, state, waiter, mode, command.fair) then
    if waiter then lock.remove_waiter(cx, state, waiter) end
    return held(cx, lock.grant(cx, state, command))
  end
  if not command.wait then return {Busy = lock.view_blocked(cx, state)} end
  return wait(cx, state, command, waiter)
end

-- Grants an exclusive lock that is not in use, without a table for it: this is what most calls do.
local function grant_free(cx, name, token, holder, ttl_ms, delay_ms, hold_ms)
  local now, locks, since, hold_ends = cx.now, cx.locks, text(cx.now), '0'
  local least, fence, ends, remaining_us = lock.last_fence(cx) + 1, since, nil, nil
  if least > now then fence = text(least) end
  if hold_ms == '0' then
    ends, remaining_us = text(now + ttl_ms * 1000), ttl_ms .. '000'
  else
    local hold_us = min(ttl_ms * 1000, hold_ms * 1000)
    ends, hold_ends, remaining_us = text(now + hold_us), text(now + hold_ms * 1000), text(hold_us)
  end
  -- Joining texts takes half as long as formatting numbers.
  local row = 'exclusive:0:1:0:' .. token .. ':' .. fence .. ':' .. since .. ':' .. ends .. ':' .. hold_ends .. ':'
    .. delay_ms .. ':exclusive:' .. holder
  call('MSET', locks .. 'lock:' .. name, row, cx.prefix .. 'lock-fence', fence)
  call('ZADD', locks .. 'lock-names', '0', name)
  call('ZADD', locks .. 'lock-deadlines', ends, name)
  return fence .. ':' .. remaining_us
end

function lock.ops.acquire_lock(cx)
  local _, name, token, process, holder, mode, ttl_ms, delay_ms, hold_ms, flags = unpack(cx.arguments)
  local state, reply = lock.take(cx, name), nil
  if not state then
    if call('ZCARD', cx.locks .. 'lock-names') >= LOCKS_MAX then return cmsgpack.pack({Refused = 'TooManyLocks'}) end
    if mode == 'exclusive' then return grant_free(cx, name, token, holder, ttl_ms, delay_ms, hold_ms) end
  end
  local kind = KINDS[mode] or mode
  local command = {
    token = token, process = process, holder = holder, mode = KINDS[mode] and mode or 'permit', kind = kind,
    ttl_ms = ttl_ms, delay_ms = delay_ms, hold_ms = hold_ms, wait = flags == '1' or flags == '3',
    fair = flags == '2' or flags == '3',
  }
  if state then
    reply = acquire_from(cx, state, command)
  else
    state = lock.new(cx, name, kind)
    reply = held(cx, lock.grant(cx, state, command))
  end
  lock.store(cx, state)
  return type(reply) == 'string' and reply or cmsgpack.pack(reply)
end
