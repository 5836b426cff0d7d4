#!lua flags=allow-oom
-- lease: promotes due jobs, picks jobs in fair order, charges every gate and leases the
-- jobs, in one step.
-- Key: the partition.
-- Arguments: [1] time, [2] worker, [3] request number, [4] most jobs, [5] lease in µs, [6…] types,
-- sorted, each once.
-- Replies {'superseded', newest}, or {'jobs', µs until the wake time or '', fence, lanes served, per
-- lane: place, group, jobs, returned jobs among them (which come first), (id, row) per job, attempt
-- per returned job; then (number, name) per bulk action}.
local FIELDS = {'fence', 'sequence', 'backlog', 'bucket', 'cursor', 'rate', 'strict', 'classic', 'alpha'}

-- Promotes due jobs and wakes due lanes. If either bound is reached, there may be more at once.
local function bring_back_due(cx)
  local parked_until, waiting_until = queue.next_due(cx)
  if min(parked_until, waiting_until) > cx.now then
    cx.parked_until, cx.waiting_until = parked_until, waiting_until
    return
  end
  if queue.promote_due(cx, LEASE_PROMOTES_MAX) == LEASE_PROMOTES_MAX then queue.note_wake(cx, cx.now) end
  local due =
    call('ZRANGE', cx.prefix .. 'parked', '-inf', text(cx.now), 'BYSCORE', 'LIMIT', 0, LEASE_WAKES_MAX)
  for _, member in ipairs(due) do
    local place, name = match(member, '^(%d:[^:]+):(.+)$')
    queue.wake_lane(cx, queue.group_state(cx, name, place))
  end
  if #due == LEASE_WAKES_MAX then queue.note_wake(cx, cx.now) end
end

-- The requested types that exist, starting after the type served last, with open gates.
local function types_in_turn(cx)
  local turns, behind, lanes, known = {}, {}, 0,
    #cx.arguments > 5 and call('SMISMEMBER', cx.prefix .. 'types', unpack(cx.arguments, 6)) or {}
  for index, is_known in ipairs(known) do
    if is_known == 1 then
      local state = queue.type_state(cx, cx.arguments[5 + index])
      if state.asked_at > cx.now or state.asked_at + 1000000 <= cx.now then state.asked_at = cx.now end
      local list = precedes(cx.partition.cursor, state.name) and turns or behind
      list[#list + 1] = state
      lanes = lanes + queue.active_lanes(state)
      queue.open_type_gate(cx, state)
    end
  end
  for _, state in ipairs(behind) do turns[#turns + 1] = state end
  -- The only lane is served without leaving its order after each quantum.
  cx.is_alone = lanes == 1
  return turns
end

function queue.ops.lease(cx)
  local worker, request, jobs_max, lease_us = unpack(cx.arguments, 2, 5)
  cx.worker, jobs_max = worker, tonumber(jobs_max)
  kernel.read_partition(cx, FIELDS)
  local again = queue.answer_again(cx, worker, tonumber(request))
  if again then return again end

  cx.left, cx.parks, cx.wake_at = jobs_max, 0, nil
  local fence = max(cx.partition.fence + 1, cx.now)
  cx.padded = format('%016d', fence)

  queue.begin_picking(cx)
  queue.open_queue_gate(cx, jobs_max)
  -- Fences are never behind the clock: a fence ahead of it means that the clock may
  -- have stepped back.
  if cx.partition.fence > cx.now then queue.lower_far_deadlines(cx) end
  if cx.partition.classic == 0 then bring_back_due(cx) end
  local turns = types_in_turn(cx)
  local gates, turn_at, last = {unpack(turns)}, 1, #turns
  while turns[turn_at] and not queue.is_full(cx) do
    local state = turns[turn_at]
    turn_at = turn_at + 1
    local turn = cx.partition.classic == 1 and queue.serve_ready(cx, state)
      or cx.partition.classic == 0 and queue.serve_type(cx, state)
    if turn == 'all blocked' then break end
    if turn == 'served' then
      cx.partition.cursor, last = state.name, last + 1
      turns[last] = state
    end
  end
  if cx.picked > 0 then cx.partition.fence = fence end
  queue.note_ends(cx, gates)
  queue.record_ended(cx)
  cx.reply[2], cx.reply[3] = cx.wake_at and text(cx.wake_at - cx.now) or '', text(fence)
  local reply = queue.lease_picked(cx, text(cx.now + lease_us))
  queue.remember(cx, worker, request, cx.picked > 0 and fence or 0)
  queue.close_gates(cx)
  queue.write_all(cx)
  return reply
end
