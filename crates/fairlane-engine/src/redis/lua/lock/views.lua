-- What callers and operators see of a lock.

local MODES = {exclusive = 'Exclusive', read = 'Read', write = 'Write'}

function lock.view_kind(kind)
  local permits = match(kind, '^semaphore/(%d+)$')
  if permits then return {Semaphore = {permits = tonumber(permits)}} end
  return kind == 'exclusive' and 'Exclusive' or 'ReadWrite'
end

local function view_holder(cx, state, holder)
  return {
    holder = holder.name, fence = holder.fence, held_us = max(cx.now - holder.since, 0),
    remaining_us = max(holder.ends - cx.now, 0),
    mode = MODES[holder.mode] or {Permit = {of = tonumber(match(state.kind, '%d+$'))}},
  }
end

-- Why a lock is not free.
function lock.view_blocked(cx, state)
  local holder, deadline = lock.first_holder(state), lock.next_deadline(state)
  return {
    holder = holder and view_holder(cx, state, holder), waiters = state.waiters,
    changes_in_us = deadline and max(deadline - cx.now, 0) or 0,
  }
end

-- The lock without leases that have run out, or nil if it is not in use.
function lock.view(cx, name)
  local state = lock.load(cx, name)
  if not state then return nil end
  local holders, shown = 0, {}
  if state.kind == 'exclusive' then
    if state.only and state.only.ends > cx.now then holders, shown[1] = 1, view_holder(cx, state, state.only) end
  else
    local after = '(' .. text(cx.now)
    holders = call('ZCOUNT', lock.ends_key(state), after, '+inf')
    local live = call('ZRANGE', lock.ends_key(state), after, '+inf', 'BYSCORE', 'LIMIT', 0, LOCK_HOLDERS_SHOWN_MAX)
    for index, token in ipairs(live) do shown[index] = view_holder(cx, state, lock.holder(state, token)) end
  end
  local delay_us = max(state.delay - cx.now, 0)
  if holders == 0 and state.waiters == 0 and delay_us == 0 then return nil end
  return {
    name = name, kind = lock.view_kind(state.kind), holders = holders, held_by = shown, waiters = state.waiters,
    claims = lock.claims(state), delay_us = delay_us,
  }
end
