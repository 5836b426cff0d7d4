-- One lock and its holders. Its hash has `kind`, `delay` (until when it stays free), `next` (the next
-- place of a waiter) and `waiters` (their number). The holder of an exclusive lock is the field
-- `holder`; other locks have a field `holder:<token>` each, and `lock-ends:<name>` has their tokens by
-- the end of their leases.

-- What is stored of a lock that is not.
local NEW = {delay = 0, next = 1, waiters = 0}
local HOLDER = '^(%d+):(%d+):(%d+):(%d+):(%d+):(%a+):(.*)$'

local function parse_holder(token, record)
  local fence, since, ends, hold_ends, delay_ms, mode, name = match(record, HOLDER)
  return {
    token = token, fence = tonumber(fence), since = tonumber(since), ends = tonumber(ends),
    hold_ends = tonumber(hold_ends), delay_ms = tonumber(delay_ms), mode = mode, name = name,
  }
end

local function holder_text(holder)
  return format('%d:%d:%d:%d:%d:%s:%s', holder.fence, holder.since, holder.ends, holder.hold_ends,
    holder.delay_ms, holder.mode, holder.name)
end

-- A lock without holders and waiters.
function lock.new(cx, name, kind)
  return {
    prefix = cx.locks, name = name, key = cx.locks .. 'lock:' .. name, kind = kind, delay = 0, next = 1, waiters = 0,
    was = NEW,
  }
end

function lock.load(cx, name)
  local key = cx.locks .. 'lock:' .. name
  local kind, delay, place, waiters, holder =
    unpack(call('HMGET', key, 'kind', 'delay', 'next', 'waiters', 'holder'))
  if not kind then return nil end
  local state = lock.new(cx, name, kind)
  state.is_stored, state.delay, state.next, state.waiters = true, tonumber(delay or 0), tonumber(place or 1),
    tonumber(waiters or 0)
  state.was = {kind = kind, delay = state.delay, next = state.next, waiters = state.waiters, holder = holder}
  if holder then
    local token, record = match(holder, '^([^:]+):(.*)$')
    state.only = parse_holder(token, record)
  end
  return state
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
  local record = call('HGET', state.key, 'holder:' .. token)
  return record and parse_holder(token, record)
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
  call('HSET', state.key, 'holder:' .. holder.token, holder_text(holder))
  local added = call('ZADD', lock.ends_key(state), text(holder.ends), holder.token)
  if state.count then state.count = state.count + added end
end

function lock.remove_holder(state, holder)
  if is_exclusive(state) then
    state.only = nil
    return
  end
  call('HDEL', state.key, 'holder:' .. holder.token)
  call('ZREM', lock.ends_key(state), holder.token)
  if state.count then state.count = state.count - 1 end
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

-- Writes the fields of the hash that have changed.
function lock.write_row(state)
  local was, changes = state.was, {}
  if state.kind ~= was.kind then kernel.change(changes, 'kind', state.kind) end
  if state.delay ~= was.delay then kernel.change(changes, 'delay', text(state.delay)) end
  if state.next ~= was.next then kernel.change(changes, 'next', text(state.next)) end
  if state.waiters ~= was.waiters then kernel.change(changes, 'waiters', text(state.waiters)) end
  local holder = state.only and state.only.token .. ':' .. holder_text(state.only)
  if holder and holder ~= was.holder then kernel.change(changes, 'holder', holder) end
  if changes[1] then call('HSET', state.key, unpack(changes)) end
  if was.holder and not holder then call('HDEL', state.key, 'holder') end
end
