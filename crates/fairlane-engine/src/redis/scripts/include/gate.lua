-- The gates of the queue, a type and a group. A pass is a number of jobs; a denial is 0 and the
-- time to try again, if known.
local asked, whole_flow, whole_level

local function open_queue_gate(jobs)
  asked, whole_flow = jobs, flow_of(partition.rate)
  if whole_flow then whole_level = refilled(partition.bucket, whole_flow) end
end

local function queue_pass()
  if not whole_flow then return math.huge end
  local slots = slots_in(whole_level, whole_flow)
  if slots == 0 then return 0, wake_time(whole_level, whole_flow, asked) end
  return slots
end

local function open_type_gate(state)
  state.flow = type_flow(state)
  if state.flow then state.level = refilled(state.bucket, state.flow) end
end

local function type_pass(state)
  if state.paused then return 0 end
  local seats = state.concurrency > 0 and max(state.concurrency - state.in_flight, 0) or math.huge
  if seats == 0 then return 0 end
  if now < state.closed_until then return 0, min(state.closed_until, now + PARK_US_MAX) end
  if not state.flow then return seats end
  local slots = slots_in(state.level, state.flow)
  if slots == 0 then return 0, wake_time(state.level, state.flow, asked) end
  return min(seats, slots)
end

-- The number of jobs of a group that may pass; or 0, how to park its lane, and until when.
local function group_pass(group)
  if group.paused then return 0, 'P', 0 end
  local seats = group.concurrency and max(group.concurrency - group.in_flight, 0) or math.huge
  if seats == 0 then return 0, 'S', 0 end
  if not group.flow then return seats end
  if not group.level then group.level = refilled(group.bucket, group.flow) end
  local slots = slots_in(group.level, group.flow)
  if slots == 0 then return 0, 'R', wake_time(group.level, group.flow, asked) end
  return min(seats, slots)
end

-- How to set aside a lane of this group, if the group is paused or has no free seat.
local function group_closed(group)
  if group.paused then return 'P' end
  if group.concurrency and group.in_flight >= group.concurrency then return 'S' end
end

local function charge_gates(state, group, jobs)
  if whole_flow then whole_level = whole_level - jobs * whole_flow.job_units end
  if state.flow then state.level = state.level - jobs * state.flow.job_units end
  if group.level then group.level = group.level - jobs * group.flow.job_units end
  state.in_flight = state.in_flight + jobs
  group.in_flight = group.in_flight + jobs
end

-- Writes the levels back to the rows they came from.
local function close_gates()
  if whole_flow then partition.bucket = bucket_text(whole_level) end
  for _, state in pairs(types) do
    if state.level then state.bucket = bucket_text(state.level) end
  end
  for _, group in pairs(groups) do
    if group.level then group.bucket = bucket_text(group.level) end
  end
end
