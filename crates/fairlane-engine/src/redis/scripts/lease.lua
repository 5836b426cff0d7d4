#!lua flags=allow-oom
-- lease: promotes what is due, picks in fair order, charges every gate and leases, in one step.
-- KEYS[1] the partition.
-- ARGV[1] time, [2] worker, [3] request number, [4] most jobs, [5] lease in µs, [6…] types, sorted, each once.
-- Replies {'superseded', newest}, or {'jobs', µs until the wake time or '', fence, then per lane served: place,
-- group, jobs, returned jobs among them (which come first), (id, row) per job, attempt per returned job}.
--@include base
--@include rate
--@include lane
--@include write
--@include order
--@include waiting
--@include clamp
--@include downstream
--@include gate
--@include answer
--@include pick
local worker, request, jobs_max, lease_us = ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
read_partition({'fence', 'sequence', 'backlog', 'bucket', 'cursor', 'rate', 'strict'})
local again = answer_again(worker, tonumber(request))
if again then return again end

local left, parks, wake_at = jobs_max, 0, nil
local fence = max(partition.fence + 1, now)
local padded = format('%016d', fence)

local function note_wake(at)
  if at and (not wake_at or at < wake_at) then wake_at = at end
end

-- Promotes due jobs and wakes due lanes; at either bound there may be more at once.
local function bring_back_due()
  if promote_due(LEASE_PROMOTES_MAX) == LEASE_PROMOTES_MAX then note_wake(now) end
  local due = call('ZRANGE', prefix .. 'parked', '-inf', text(now), 'BYSCORE', 'LIMIT', 0, LEASE_WAKES_MAX)
  for _, member in ipairs(due) do
    local place, name = match(member, '^(%d:[^:]+):(.+)$')
    wake_lane(group_state(name, place))
  end
  if #due == LEASE_WAKES_MAX then note_wake(now) end
end

-- The asked types that are known, beginning after the one served last, their gates open.
local function types_in_turn()
  local turns, behind, known = {}, {}, #ARGV > 5 and call('SMISMEMBER', prefix .. 'types', unpack(ARGV, 6)) or {}
  for index, is_known in ipairs(known) do
    if is_known == 1 then
      local state = type_state(ARGV[5 + index])
      local list = precedes(partition.cursor, state.name) and turns or behind
      list[#list + 1] = state
      open_type_gate(state)
    end
  end
  for _, state in ipairs(behind) do turns[#turns + 1] = state end
  return turns
end

-- The level whose turn it is, among those with lanes in order.
local function next_level(state)
  local best
  for level = 0, 2 do
    local order = state[level]
    if order.active > 0 then
      if partition.strict == 1 then return level end
      if not best or order.tag < state[best].tag then best = level end
    end
  end
  return best
end

-- Charges a lane, its order and its level, and puts the lane where it now belongs.
local function charge(state, group, lane, jobs, cost, empty)
  local order = state[lane.level]
  left, partition.backlog, group.backlog = left - jobs, partition.backlog - jobs, group.backlog - jobs
  charge_gates(state, group, jobs)
  order.virtual_time = max(order.virtual_time, lane.tag)
  order.pool = min(order.pool + jobs, POOL_FULL)
  local units = cost * UNITS + lane.remainder
  if units < 0 then
    lane.remainder = units
  else
    lane.tag, lane.remainder = lane.tag + floor(units / group.weight), units % group.weight
  end
  state.virtual_time = max(state.virtual_time, order.tag)
  order.tag, order.touched = order.tag + cost * order.units, true
  if empty then return park_lane(group, lane, 'I', 0) end
  local pass, standing, park = group_pass(group)
  if pass > 0 then return insert_lane(group, lane) end
  parks = parks + 1
  park_lane(group, lane, standing, park)
end

-- Serves one lane of a type; lanes whose group is denied are parked on the way.
local function serve_type(state)
  while true do
    local level = next_level(state)
    if not level then return 'type blocked' end
    local type_jobs, type_wake = type_pass(state)
    if type_jobs == 0 then
      note_wake(type_wake)
      return 'type blocked'
    end
    local whole_jobs, whole_wake = whole_pass()
    if whole_jobs == 0 or parks >= LEASE_PARKS_MAX then
      note_wake(whole_jobs == 0 and whole_wake or now)
      return 'all blocked'
    end
    local order = state[level]
    local popped = call('ZPOPMIN', order.key)
    local group, lane = group_state(sub(popped[1], 18), order.place)
    lane.tag, lane.epoch = tonumber(popped[2]), order.epoch
    local pass, standing, park = group_pass(group)
    if pass > 0 then
      local jobs, cost, empty = serve_lane(state, group, lane, min(left, type_jobs, whole_jobs, pass), padded, worker)
      charge(state, group, lane, jobs, cost, empty)
      return 'served'
    end
    parks = parks + 1
    park_lane(group, lane, standing, park)
  end
end
--@include ends

open_whole_gate(jobs_max)
-- Fences never lag behind the clock: one ahead of it means that the clock may have stepped back.
if partition.fence > now then lower_far_deadlines() end
bring_back_due()
local turns = types_in_turn()
local gates = {unpack(turns)}
while left > 0 and turns[1] do
  local state = table.remove(turns, 1)
  local turn = serve_type(state)
  if turn == 'all blocked' then break end
  if turn == 'served' then
    partition.cursor = state.name
    turns[#turns + 1] = state
  end
end
if picked > 0 then partition.fence = fence end
note_ends(gates)
local reply = {'jobs', wake_at and text(wake_at - now) or '', text(fence)}
lease_picked(reply, padded, text(now + lease_us))
remember(worker, request, picked > 0 and fence or 0)
close_gates()
write_all()
return reply
