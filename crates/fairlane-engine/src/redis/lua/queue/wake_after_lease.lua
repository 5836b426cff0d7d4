-- Ensures that a worker wakes up for the jobs that a lease leaves: now by a token, later by
-- one timer per type.

function queue.ready_key(cx, state)
  return cx.prefix .. 'ready-queue:' .. state.name
end

-- Lowers the wake time of this lease.
function queue.note_wake(cx, at)
  if at and (not cx.wake_at or at < cx.wake_at) then cx.wake_at = at end
end

-- Handles a bound that was reached. Lanes that were set aside are not visited again, so the next
-- call continues from here. The token lets that call start without a delay.
function queue.go_on_at_once(cx, state)
  queue.note_wake(cx, cx.now)
  queue.push_token(cx, state.name)
end

-- Wakes other workers for the jobs that a satisfied caller leaves: to serve them now, or
-- to hold the timer.
local function wake_others(cx, gates)
  local woken = false
  for _, state in ipairs(gates) do
    local seated = state.concurrency == 0 or state.in_flight < state.concurrency
    local servable
    if cx.partition.classic == 1 then
      servable = call('EXISTS', queue.ready_key(cx, state)) == 1
    else
      servable = queue.is_active(state)
    end
    if servable and not state.paused and seated then
      queue.push_token(cx, state.name)
      woken = true
    end
  end
  if not woken and cx.partition.classic == 0
    and (queue.first_score(cx, 'parked') or queue.first_score(cx, 'non-ready-queue')) then
    queue.push_token(cx, gates[1].name)
  end
end

function queue.note_ends(cx, gates)
  if cx.left == 0 or cx.bytes >= LEASE_BYTES_MAX then
    cx.wake_at = nil
    return wake_others(cx, gates)
  end
  if cx.partition.classic == 0 then
    queue.note_wake(cx, queue.first_score(cx, 'parked'))
    queue.note_wake(cx, queue.first_score(cx, 'non-ready-queue'))
  end
  if not cx.wake_at then return end
  local holds_timer = false
  for _, state in ipairs(gates) do
    local at, holder = match(state.timer, '^(%d+):(.+)$')
    local taken = at and holder ~= cx.worker and tonumber(at) <= cx.wake_at
      and at + TIMER_BACKSTOP_US > cx.now
    if not taken then
      state.timer, holds_timer = text(cx.wake_at) .. ':' .. cx.worker, true
    end
  end
  if not holds_timer then cx.wake_at = nil end
end
