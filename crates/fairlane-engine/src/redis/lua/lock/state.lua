-- One lock and its holders. The row of a lock is the text kind:delay:next:waiters:holder, where `delay`
-- is the time until which no one gets it, `next` the next place of a waiter and `waiters` their number.
-- The holder of an exclusive lock stands in the row. Other locks have a hash of holders by token, and
-- `lock-ends:<name>` has their tokens by the end of their leases. A holder that was granted the lock as a
-- waiter has the process that was signalled at its end, until it renews or acquires.

local ROW = '^([^:]+):(%d+):(%d+):(%d+):(.*)$'
local HOLDER = '^([^:]+):(%d+):(%d+):(%d+):(%d+):(%d+):(%a+):([^:]*):?(.*)$'

local function parse_holder(record)
  local token, fence, since, ends, hold_ends, delay_ms, mode, name, signalled = match(record, HOLDER)
  return {
    token = token, fence = tonumber(fence), since = tonumber(since), ends = tonumber(ends),
    hold_ends = tonumber(hold_ends), delay_ms = tonumber(delay_ms), mode = mode, name = name,
    signalled = signalled ~= '' and signalled or nil,
  }
end

local function holder_text(holder)
  local record = format('%s:%d:%d:%d:%d:%d:%s:%s', holder.token, holder.fence, holder.since, holder.ends,
    holder.hold_ends, holder.delay_ms, holder.mode, holder.name)
  return holder.signalled and record .. ':' .. holder.signalled or record
end

-- A lock without holders and waiters.
function lock.new(cx, name, kind)
  return {
    prefix = cx.locks, name = name, key = cx.locks .. 'lock:' .. name, kind = kind, delay = 0, next = 1, waiters = 0,
  }
end

function lock.load(cx, name, row)
  row = row or call('GET', cx.locks .. 'lock:' .. name)
  if not row then return nil end
  local kind, delay, place, waiters, holder = match(row, ROW)
  if not kind then error({err = 'WRONGTYPE the key lock:' .. name .. ' belongs to another program'}) end
  local state = lock.new(cx, name, kind)
  state.row, state.delay, state.next, state.waiters = row, tonumber(delay), tonumber(place), tonumber(waiters)
  if holder ~= '' then state.only = parse_holder(holder) end
  return state
end

function lock.holders_key(state)
  return state.prefix .. 'lock-holders:' .. state.name
end

function lock.ends_key(state)
  return state.prefix .. 'lock-ends:' .. state.name
end

local function is_exclusive(state)
  return state.kind == 'exclusive'
end

function lock.holders(state)
  if is_exclusive(state) then return state.only and 1 or 0 end
  state.count = state.count or call('ZCARD', lock.ends_key(state))
  return state.count
end

function lock.holder(state, token)
  if is_exclusive(state) then return state.only and state.only.token == token and state.only or nil end
  local record = call('HGET', lock.holders_key(state), token)
  return record and parse_holder(record)
end

-- The holder whose lease ends first.
function lock.first_holder(state)
  if is_exclusive(state) then return state.only end
  local token = call('ZRANGE', lock.ends_key(state), 0, 0)[1]
  return token and lock.holder(state, token)
end

-- Adds a holder, or moves the end of its lease.
function lock.write_holder(state, holder)
  if is_exclusive(state) then
    state.only = holder
    return
  end
  call('HSET', lock.holders_key(state), holder.token, holder_text(holder))
  local added = call('ZADD', lock.ends_key(state), text(holder.ends), holder.token)
  if state.count then state.count = state.count + added end
end

function lock.remove_holder(state, holder)
  if holder.signalled then lock.forget_signal(state, holder.signalled, holder.token) end
  if is_exclusive(state) then
    -- While it was held there were no claims.
    state.only, state.claim_count = nil, 0
    return
  end
  call('HDEL', lock.holders_key(state), holder.token)
  call('ZREM', lock.ends_key(state), holder.token)
  if state.count then state.count = state.count - 1 end
end

-- Extends the lease of a holder.
function lock.extend(cx, state, holder, ttl_ms)
  if holder.signalled then lock.forget_signal(state, holder.signalled, holder.token) end
  holder.ends, holder.signalled = cx.now + ttl_ms * 1000, nil
  if holder.hold_ends > 0 then holder.ends = min(holder.ends, holder.hold_ends) end
  lock.write_holder(state, holder)
end

-- Whether a holder of this mode fits beside the holders and, if `beside_claims`, the claims.
function lock.fits(state, mode, beside_claims)
  local holders, claims = lock.holders(state), beside_claims and lock.claims(state) or 0
  if mode == 'permit' then return holders + claims < tonumber(match(state.kind, '%d+$')) end
  if mode ~= 'read' then return holders + claims == 0 end
  -- A writer is the only one, so the first decides for all.
  local first = holders > 0 and lock.first_holder(state) or claims > 0 and lock.edge_claim(state, 0)
  return not first or first.mode ~= 'write'
end

-- The next time at which the lock changes by itself.
function lock.next_deadline(state)
  local holder, claim = lock.first_holder(state), lock.claims(state) > 0 and lock.edge_claim(state, 0)
  local deadline = holder and holder.ends or state.delay > 0 and state.delay or nil
  if claim then deadline = min(deadline or claim.claim_ends, claim.claim_ends) end
  return deadline
end

-- Writes the row if it has changed, in one step with the fence of a new holder.
function lock.write_row(cx, state)
  local row = format('%s:%d:%d:%d:%s', state.kind, state.delay, state.next, state.waiters,
    state.only and holder_text(state.only) or '')
  if state.fence then
    call('MSET', state.key, row, cx.prefix .. 'lock-fence', text(state.fence))
  elseif row ~= state.row then
    call('SET', state.key, row)
  end
end
