-- Waiters and claims. `lock-waiters:<name>` has every waiter by its token; `lock-waiting:<name>` and
-- `lock-claims:<name>` have the tokens of those without and with a claim by their place. Every place
-- with a claim is in front of every place without. A waiter that the lock can be granted to for one slice
-- has the terms of its hold at its end: the delay, the longest hold (0: none) and the holder.
-- `lock-process:<process>` has the claims of a process, and its grants that were not renewed yet.

local WAITER = '^(%d+):(%d+):(%d+):(%a+):([^:]*):?(%d*):?(%d*):?(.*)$'

local function waiters_key(state)
  return state.prefix .. 'lock-waiters:' .. state.name
end

local function waiting_key(state)
  return state.prefix .. 'lock-waiting:' .. state.name
end

function lock.claims_key(state)
  return state.prefix .. 'lock-claims:' .. state.name
end

local function waiter_text(waiter)
  local record = format('%d:%d:%d:%s:%s', waiter.place, waiter.claim_ends, waiter.losses, waiter.mode, waiter.process)
  if not waiter.holder then return record end
  return format('%s:%d:%d:%s', record, waiter.delay_ms, waiter.hold_ms, waiter.holder)
end

function lock.waiter(state, token)
  if state.waiters == 0 then return nil end
  if state.claimed and state.claimed.token == token then return state.claimed end
  local record = call('HGET', waiters_key(state), token)
  if not record then return nil end
  local place, claim_ends, losses, mode, process, delay_ms, hold_ms, holder = match(record, WAITER)
  return {
    token = token, place = tonumber(place), claim_ends = tonumber(claim_ends), losses = tonumber(losses),
    mode = mode, process = process, delay_ms = delay_ms, hold_ms = hold_ms, holder = holder ~= '' and holder or nil,
  }
end

-- The first waiter without a claim.
function lock.first_waiting(state)
  if state.waiters == 0 then return nil end
  local token = call('ZRANGE', waiting_key(state), 0, 0)[1]
  return token and lock.waiter(state, token)
end

-- Whether the lock is reserved for a waiter, or no other waiter without a claim is in front of it.
function lock.is_next(state, waiter)
  return waiter.claim_ends > 0 or call('ZRANGE', waiting_key(state), 0, 0)[1] == waiter.token
end

-- The number of claims. An exclusive lock has one at most, which is kept in `state.claimed`, and none
-- while it is held.
function lock.claims(state)
  if state.waiters == 0 or state.only then return 0 end
  if not state.claim_count and state.kind == 'exclusive' then
    local token = call('ZRANGE', lock.claims_key(state), 0, 0)[1]
    state.claimed, state.claim_count = token and lock.waiter(state, token), token and 1 or 0
  end
  state.claim_count = state.claim_count or call('ZCARD', lock.claims_key(state))
  return state.claim_count
end

-- The first waiter with a claim (`at` is 0) or the last (-1); there is one.
function lock.edge_claim(state, at)
  return state.claimed or lock.waiter(state, call('ZRANGE', lock.claims_key(state), at, at)[1])
end

local function process_key(state, process)
  return state.prefix .. 'lock-process:' .. process
end

-- Signals a waiter, whose process learns the same from `attend_locks`.
function lock.signal_waiter(cx, state, waiter, message)
  call('ZADD', process_key(state, waiter.process), 0, state.name .. '\n' .. waiter.token)
  lock.signal(cx, waiter.process, message)
end

function lock.forget_signal(state, process, token)
  call('ZREM', process_key(state, process), state.name .. '\n' .. token)
end

-- Adds a waiter behind all others.
function lock.add_waiter(cx, state, waiter)
  waiter.place, waiter.claim_ends = state.next, 0
  state.next, state.waiters = state.next + 1, state.waiters + 1
  lock.count_waiters(cx, 1)
  call('HSET', waiters_key(state), waiter.token, waiter_text(waiter))
  call('ZADD', waiting_key(state), text(waiter.place), waiter.token)
end

-- Reserves capacity for a waiter and signals its process.
function lock.claim(cx, state, waiter)
  state.claim_count = lock.claims(state) + 1
  waiter.claim_ends = cx.now + LOCK_SLICE_US
  if state.kind == 'exclusive' then state.claimed = waiter end
  call('ZREM', waiting_key(state), waiter.token)
  call('ZADD', lock.claims_key(state), text(waiter.place), waiter.token)
  call('HSET', waiters_key(state), waiter.token, waiter_text(waiter))
  lock.signal_waiter(cx, state, waiter, waiter.token)
end

local function end_claim(state, waiter)
  state.claim_count, state.claimed = lock.claims(state) - 1, nil
  call('ZREM', lock.claims_key(state), waiter.token)
  lock.forget_signal(state, waiter.process, waiter.token)
end

-- Returns a waiter whose claim was taken to its place.
function lock.displace(state, waiter)
  end_claim(state, waiter)
  waiter.claim_ends, waiter.losses = 0, waiter.losses + 1
  call('ZADD', waiting_key(state), text(waiter.place), waiter.token)
  call('HSET', waiters_key(state), waiter.token, waiter_text(waiter))
end

function lock.remove_waiter(cx, state, waiter)
  if waiter.claim_ends > 0 then
    end_claim(state, waiter)
  else
    call('ZREM', waiting_key(state), waiter.token)
  end
  call('HDEL', waiters_key(state), waiter.token)
  state.waiters = state.waiters - 1
  lock.count_waiters(cx, -1)
end

-- Removes the other keys of a lock whose own key was deleted by hand. Its waiters register again.
function lock.remove_leftovers(cx, name)
  local state = lock.new(cx, name, 'exclusive')
  local waiters = call('HLEN', waiters_key(state))
  if waiters > 0 then lock.count_waiters(cx, -waiters) end
  call('UNLINK', waiters_key(state), waiting_key(state), lock.claims_key(state), lock.ends_key(state),
    lock.holders_key(state))
  lock.remove_name(cx, name)
end
