#!lua flags=allow-oom
-- lease: promotes due jobs, picks jobs in fair order, charges every gate and leases the
-- jobs, in one step.
-- KEYS[1] the partition.
-- ARGV[1] time, [2] worker, [3] request number, [4] most jobs, [5] lease in µs, [6…] types,
-- sorted, each once.
-- Replies {'superseded', newest}, or {'jobs', µs until the wake time or '', fence, bulk actions,
-- (number, name) of each, then per lane served: place, group, jobs, returned jobs among them (which
-- come first), (id, row) per job, attempt per returned job}.
--@include base
--@include rate
--@include lane
--@include write
--@include order
--@include waiting
--@include clamp
--@include downstream
--@include gate
--@include bytes
--@include bulk
--@include finish_job
--@include congestion
--@include answer
--@include pick
local worker, request, jobs_max, lease_us = ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
read_partition({'fence', 'sequence', 'backlog', 'bucket', 'cursor', 'rate', 'strict', 'classic', 'alpha'})
local again = answer_again(worker, tonumber(request))
if again then return again end

local left, parks, wake_at = jobs_max, 0, nil
local fence = max(partition.fence + 1, now)
local padded = format('%016d', fence)

local function note_wake(at)
  if at and (not wake_at or at < wake_at) then wake_at = at end
end

-- Promotes due jobs and wakes due lanes. If either bound is reached, there may be more at once.
local function bring_back_due()
  if promote_due(LEASE_PROMOTES_MAX) == LEASE_PROMOTES_MAX then note_wake(now) end
  local due = call('ZRANGE', prefix .. 'parked', '-inf', text(now), 'BYSCORE', 'LIMIT', 0, LEASE_WAKES_MAX)
  for _, member in ipairs(due) do
    local place, name = match(member, '^(%d:[^:]+):(.+)$')
    wake_lane(group_state(name, place))
  end
  if #due == LEASE_WAKES_MAX then note_wake(now) end
end

-- The requested types that exist, starting after the type served last, with open gates.
local function types_in_turn()
  local turns, behind, known = {}, {}, #ARGV > 5 and call('SMISMEMBER', prefix .. 'types', unpack(ARGV, 6)) or {}
  for index, is_known in ipairs(known) do
    if is_known == 1 then
      local state = type_state(ARGV[5 + index])
      if state.asked_at > now or state.asked_at + 1000000 <= now then state.asked_at = now end
      local list = precedes(partition.cursor, state.name) and turns or behind
      list[#list + 1] = state
      open_type_gate(state)
    end
  end
  for _, state in ipairs(behind) do turns[#turns + 1] = state end
  return turns
end

-- The level that is served next, among those with lanes in order.
local function next_level(state)
  local best
  for level = 0, 2 do
    local order = state[level]
    if order.active > 0 then
      if partition.strict == 1 or partition.classic == 1 then return level end
      if not best or order.tag < state[best].tag then best = level end
    end
  end
  return best
end

--@include serve
--@include wake_after_lease

open_queue_gate(jobs_max)
-- Fences are never behind the clock: a fence ahead of it means that the clock may
-- have stepped back.
if partition.fence > now then lower_far_deadlines() end
if partition.classic == 0 then bring_back_due() end
local turns = types_in_turn()
local gates = {unpack(turns)}
while left > 0 and bytes < LEASE_BYTES_MAX and turns[1] do
  local state = table.remove(turns, 1)
  local turn = partition.classic == 1 and serve_ready(state) or partition.classic == 0 and serve_type(state)
  if turn == 'all blocked' then break end
  if turn == 'served' then
    partition.cursor = state.name
    turns[#turns + 1] = state
  end
end
if picked > 0 then partition.fence = fence end
note_ends(gates)
record_ended()
local reply = {'jobs', wake_at and text(wake_at - now) or '', text(fence)}
lease_picked(reply, padded, text(now + lease_us))
remember(worker, request, picked > 0 and fence or 0)
close_gates()
write_all()
return reply
