-- Ensures that a worker wakes up for the jobs that a lease leaves: now by a token, later by
-- one timer per type.

function queue.ready_key(cx, state)
  return cx.prefix .. 'ready-queue:' .. state.name
end

-- Lowers the wake time of this lease.
function queue.note_wake(cx, at)
  if at and (not cx.wake_at or at < cx.wake_at) then cx.wake_at = at end
end

-- When the first parked lane and the first waiting job are due; infinity without one. Until a lease
-- parks a lane, the times are those that it has read at its start, unless something was due.
function queue.next_due(cx)
  if cx.parked_until and cx.parks == 0 then return cx.parked_until, cx.waiting_until end
  return queue.first_score(cx, 'parked') or math.huge, queue.first_score(cx, 'non-ready-queue') or math.huge
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
  if not woken and cx.partition.classic == 0 and min(queue.next_due(cx)) < math.huge then
    queue.push_token(cx, gates[1].name)
  end
end

function queue.note_ends(cx, gates)
  if cx.left == 0 or cx.bytes >= LEASE_BYTES_MAX then
    cx.wake_at = nil
    return wake_others(cx, gates)
  end
  if cx.partition.classic == 0 then
    local due = min(queue.next_due(cx))
    if due < math.huge then queue.note_wake(cx, due) end
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
