-- Ensures that a worker wakes up for the jobs that a lease leaves: now by a token, later by
-- one timer per type.

-- Wakes other workers for the jobs that a satisfied caller leaves: to serve them now, or
-- to hold the timer.
local function wake_others(gates)
  local woken = false
  for _, state in ipairs(gates) do
    local seated = state.concurrency == 0 or state.in_flight < state.concurrency
    local servable
    if partition.classic == 1 then servable = call('EXISTS', ready_key(state)) == 1 else servable = is_active(state) end
    if servable and not state.paused and seated then
      push_token(state.name)
      woken = true
    end
  end
  if not woken and partition.classic == 0 and (first_score('parked') or first_score('non-ready-queue')) then push_token(gates[1].name) end
end

local function note_ends(gates)
  if left == 0 or bytes >= LEASE_BYTES_MAX then
    wake_at = nil
    return wake_others(gates)
  end
  if partition.classic == 0 then
    note_wake(first_score('parked'))
    note_wake(first_score('non-ready-queue'))
  end
  if not wake_at then return end
  local holds_timer = false
  for _, state in ipairs(gates) do
    local at, holder = match(state.timer, '^(%d+):(.+)$')
    local taken = at and holder ~= worker and tonumber(at) <= wake_at and at + TIMER_BACKSTOP_US > now
    if not taken then
      state.timer, holds_timer = text(wake_at) .. ':' .. worker, true
    end
  end
  if not holds_timer then wake_at = nil end
end
