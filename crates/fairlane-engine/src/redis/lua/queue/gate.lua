-- The gates of the queue, a type and a group. A pass is a number of jobs; a denial is 0 and the
-- time to try again, if known.

function queue.open_queue_gate(cx, jobs)
  cx.asked, cx.queue_flow = jobs, kernel.flow_of(cx.partition.rate)
  if cx.queue_flow then cx.queue_level = kernel.refilled(cx, cx.partition.bucket, cx.queue_flow) end
end

function queue.queue_pass(cx)
  if not cx.queue_flow then return math.huge end
  local slots = kernel.slots_in(cx.queue_level, cx.queue_flow)
  if slots == 0 then return 0, kernel.wake_time(cx, cx.queue_level, cx.queue_flow, cx.asked) end
  return slots
end

function queue.open_type_gate(cx, state)
  state.flow = queue.type_flow(cx, state)
  if state.flow then state.level = kernel.refilled(cx, state.bucket, state.flow) end
end

function queue.type_pass(cx, state)
  if state.paused then return 0 end
  local seats = state.concurrency > 0 and max(state.concurrency - state.in_flight, 0) or math.huge
  if seats == 0 then return 0 end
  if cx.now < state.closed_until then return 0, min(state.closed_until, cx.now + PARK_US_MAX) end
  if not state.flow then return seats end
  local slots = kernel.slots_in(state.level, state.flow)
  if slots == 0 then return 0, kernel.wake_time(cx, state.level, state.flow, cx.asked) end
  return min(seats, slots)
end

-- The number of jobs of a group that may pass; or 0, how to park its lane, and until when.
function queue.group_pass(cx, group)
  if not group.limits then return math.huge end
  if group.paused then return 0, 'P', 0 end
  local seats = group.concurrency and max(group.concurrency - group.in_flight, 0) or math.huge
  if seats == 0 then return 0, 'S', 0 end
  if not group.flow then return seats end
  if not group.level then group.level = kernel.refilled(cx, group.bucket, group.flow) end
  local slots = kernel.slots_in(group.level, group.flow)
  if slots == 0 then return 0, 'R', kernel.wake_time(cx, group.level, group.flow, cx.asked) end
  return min(seats, slots)
end

-- How to set aside a lane of this group, if the group is paused or has no free seat.
function queue.group_closed(group)
  if group.paused then return 'P' end
  if group.concurrency and group.in_flight >= group.concurrency then return 'S' end
end

function queue.charge_gates(cx, state, group, jobs)
  if cx.queue_flow then cx.queue_level = cx.queue_level - jobs * cx.queue_flow.job_units end
  if state.flow then state.level = state.level - jobs * state.flow.job_units end
  if group.level then group.level = group.level - jobs * group.flow.job_units end
  state.in_flight = state.in_flight + jobs
  group.in_flight = group.in_flight + jobs
end

-- Writes the levels back to the rows they came from.
function queue.close_gates(cx)
  if cx.queue_flow then cx.partition.bucket = kernel.bucket_text(cx, cx.queue_level) end
  for _, state in pairs(cx.types) do
    if state.level then state.bucket = kernel.bucket_text(cx, state.level) end
  end
  for _, group in pairs(cx.groups) do
    if group.level then group.bucket = kernel.bucket_text(cx, group.level) end
  end
end
