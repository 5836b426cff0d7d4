-- Who holds a lock next.

local function end_leases(cx, state)
  local holder, expired = lock.first_holder(state), 0
  while holder and holder.ends <= cx.now do
    lock.remove_holder(state, holder)
    state.delay = max(state.delay, holder.ends + holder.delay_ms * 1000)
    holder, expired = lock.first_holder(state), expired + 1
  end
  if expired > 0 then lock.count_expired(cx, expired) end
  if state.delay <= cx.now then state.delay = 0 end
end

-- Removes waiters whose claim has run out. One that is still interested registers again.
local function end_claims(cx, state)
  while lock.claims(state) > 0 do
    local waiter = lock.edge_claim(state, 0)
    if waiter.claim_ends > cx.now then return end
    lock.remove_waiter(cx, state, waiter)
  end
end

local function is_protected(waiter)
  return waiter.losses >= LOCK_LOSSES_MAX
end

-- Whether a free lock is granted to a waiter at once instead of being reserved for it.
local function may_grant(waiter, alive_us)
  return is_protected(waiter) or tonumber(waiter.delay_ms) == 0 and alive_us >= LOCK_GRANT_ALIVE_US
end

-- Makes the first waiter the holder for one slice. Its first renewal extends the lease.
local function grant_to_first(cx, state, first)
  lock.remove_waiter(cx, state, first)
  first.ttl_ms = LOCK_SLICE_US / 1000
  local holder = lock.grant(cx, state, first)
  holder.signalled = first.process
  lock.signal_waiter(cx, state, first, format('%s:%d:%d', first.token, holder.fence, holder.ends))
end

-- Passes free capacity to the longest run of waiters from the front that fits, and removes those whose
-- process is gone. Returns whether a step limit was reached.
function lock.claim_for_waiters(cx, state)
  if cx.now < state.delay then return false end
  for _ = 1, LOCK_STEP_WAITERS_MAX do
    local first = lock.first_waiting(state)
    if not first then return false end
    local alive_us = lock.alive_us(cx, first.process)
    if alive_us <= 0 then
      lock.remove_waiter(cx, state, first)
    elseif lock.fits(state, first.mode, true) then
      local pass = first.holder and may_grant(first, alive_us) and grant_to_first or lock.claim
      pass(cx, state, first)
      if state.kind == 'exclusive' then return false end
    else
      return false
    end
  end
  return lock.first_waiting(state) ~= nil
end

-- A lock without leases and claims that have run out. Afterwards `store` reserves what is free and puts
-- it back. `row` is the row of the lock if it was read already.
function lock.take(cx, name, row)
  local state = lock.load(cx, name, row)
  if not state then return nil end
  end_leases(cx, state)
  end_claims(cx, state)
  return state
end

function lock.remove_name(cx, name)
  call('ZREM', cx.locks .. 'lock-names', name)
  call('ZREM', cx.locks .. 'lock-deadlines', name)
end

-- Writes a lock, or removes it if nothing is left of it.
function lock.store(cx, state)
  local must_continue = lock.claim_for_waiters(cx, state)
  if state.waiters == 0 and lock.holders(state) == 0 then
    if state.delay <= cx.now then
      if state.row then
        call('DEL', state.key)
        lock.remove_name(cx, state.name)
      end
      return
    end
    -- Any kind may follow.
    state.kind = 'exclusive'
  end
  lock.write_row(cx, state)
  if not state.row then call('ZADD', cx.locks .. 'lock-names', 0, state.name) end
  call('ZADD', cx.locks .. 'lock-deadlines', text(must_continue and cx.now or lock.next_deadline(state)), state.name)
end

local function any_protected(state)
  for _, token in ipairs(call('ZRANGE', lock.claims_key(state), 0, -1)) do
    if is_protected(lock.waiter(state, token)) then return true end
  end
  return false
end

-- Makes room by returning claimed waiters to their places, last first. Changes nothing if that does not
-- make enough room.
local function make_room(state, mode)
  if mode == 'permit' then
    if lock.claims(state) == 0 or is_protected(lock.edge_claim(state, -1)) then return false end
  elseif any_protected(state) then
    return false
  end
  if not lock.fits(state, mode, false) then return false end
  while not lock.fits(state, mode, true) do lock.displace(state, lock.edge_claim(state, -1)) end
  return true
end

-- Whether this caller may hold the lock now. `waiter` is its entry among the waiters, if it has one.
function lock.may_hold(cx, state, waiter, mode, fair)
  if waiter and waiter.claim_ends > 0 then return true end
  local first = lock.first_waiting(state)
  if cx.now < state.delay or first and not (waiter and waiter.token == first.token) then return false end
  return lock.fits(state, mode, true) or not fair and make_room(state, mode)
end

-- Makes the caller or a waiter a holder.
function lock.grant(cx, state, command)
  state.fence = max(lock.last_fence(cx) + 1, cx.now)
  local ends, hold_ends = cx.now + command.ttl_ms * 1000, command.hold_ms * 1000
  if hold_ends > 0 then
    hold_ends = cx.now + hold_ends
    ends = min(ends, hold_ends)
  end
  local holder = {
    token = command.token, fence = state.fence, since = cx.now, ends = ends, hold_ends = hold_ends,
    delay_ms = tonumber(command.delay_ms), mode = command.mode, name = command.holder,
  }
  lock.write_holder(state, holder)
  return holder
end
