-- The checks by kind of suspect. Each reads first and then reports its findings.
local checks = {}

local function words_of(spots)
  local words = {}
  for index, spot in ipairs(spots) do words[index] = spot.word end
  return table.concat(words, ', ')
end

-- Removes a job from all places but the first `kept`.
local function keep(job, spots, kept)
  for index = #spots, kept + 1, -1 do take_out(job, spots[index]) end
end

local function put_back(job, spots)
  keep(job, spots, 0)
  if job.with_bulk then call('ZREM', prefix .. 'bulk:' .. job.number .. ':waiting', placed_name(job.place, job.name, job.number)) end
  if job.cancelled then return file_now(job) end
  local group, lane = group_state(job.group, job.place)
  return_to_lane(group, lane, job.id, 'RPUSH')
end

-- Checks a job that has ended: it must have left its places.
local function check_ended(job, spots)
  local filed = is_filed(job)
  if is_put_off() then return end
  if #spots > 0 then
    local detail = words_of(spots) .. ', and it has ended'
    found('two-places', detail, 0, #spots + 1, function() keep(job, spots, 0) end)
  end
  if filed == false then found('unfiled', '', 0, 0, function() file_now(job) end) end
end

function checks.job(name)
  local job = rows_of(name)
  afford(4 * #places_for(job.group))
  local spots, dead = spots_of(job), call('ZSCORE', prefix .. 'failed', name)
  if too_large then return end
  if not job.row then
    if not job.run and not dead and #spots == 0 then return end
    local where = job.run and 'the rows of its group' or dead and 'the list of the dead' or words_of(spots)
    return found('no-row', where, 0, 0, function()
      keep(job, spots, 0)
      call('HDEL', rows_key(job.group), ':' .. job.id)
      call('ZREM', prefix .. 'failed', name)
    end)
  end
  if dead and (job.state ~= 'F' or job.cancelled) then
    found('not-dead', '', 0, 0, function() call('ZREM', prefix .. 'failed', name) end)
  end
  if job.state ~= 'N' and not job.cancelled then return check_ended(job, spots) end
  local first = spots[1]
  local strays = first and (first.place and first.place ~= job.place or job.cancelled and (first.word == 'in flight' or first.word == 'waiting'))
  if not first or strays and #spots == 1 then
    return found('no-place', '', 0, 0, function() put_back(job, spots) end)
  elseif #spots > 1 then
    return found('two-places', words_of(spots), 0, #spots, function()
      if strays then put_back(job, spots) else keep(job, spots, 1) end
    end)
  end
  if first.word == 'in flight' and not is_watched(job) then
    found('no-lease', '', 0, 0, function() give_deadline(job) end)
  elseif first.word == 'waiting' and job.with_bulk then
    local index = prefix .. 'bulk:' .. job.number .. ':waiting'
    if not call('ZSCORE', index, first.member) then
      found('not-indexed', '', 0, 0, function() call('ZADD', index, 0, first.member) end)
    end
  end
end

-- The fault of a lane's standing, or nil.
local function lane_fault(group, lane, members, jobs, returned)
  local standing, member = lane.standing, lane.place .. ':' .. group.name
  local parked, clearing = call('ZSCORE', prefix .. 'parked', member), call('ZSCORE', prefix .. 'clearing', member)
  if members and standing == 'A' and #members == 0 then return 'not-in-order' end
  if members and standing == 'A' and #members > 1 then return 'twice-in-order' end
  if members and standing ~= 'A' and #members > 0 then return 'stranger' end
  if standing == 'I' and jobs + returned > 0 then return 'idle' end
  if standing == 'R' and not parked then return 'not-parked' end
  if standing ~= 'R' and parked then return 'stray-park' end
  if standing == 'C' and not clearing then return 'not-cleared' end
  if standing ~= 'C' and clearing then return 'stray-clear' end
  if standing == 'S' and (not group.concurrency or group.in_flight < group.concurrency) then return 'seats-free' end
  if standing == 'P' and not group.paused then return 'not-paused' end
  if (lane.returned == '1') ~= (returned > 0) then return 'returned' end
end

-- The number of jobs in the lists of a lane: never leased, and returned.
local function lane_lengths(group, place)
  local part = prefix .. 'group:' .. group.name
  return call('LLEN', part .. ':jobs:' .. place), call('LLEN', part .. ':returned:' .. place)
end

local function check_lanes(group)
  local parked = 0
  for _, place in ipairs(places_for(group.name)) do
    local _, lane = group_state(group.name, place)
    local members = members_of(place, group.name)
    local jobs, returned = lane_lengths(group, place)
    local fault = lane_fault(group, lane, members, jobs, returned)
    if fault then
      local detail = fault == 'stranger' and 'lane ' .. place or place
      found(fault, detail, 0, members and #members or 0, function() mend_lane(group, lane, members, jobs + returned > 0) end)
    end
    if lane.standing == 'S' then parked = parked + 1 end
  end
  if parked ~= group.seat_parked then
    found('seat-parked', '', group.seat_parked, parked, function() group.seat_parked = parked end)
  end
end

-- Whether a group has jobs, and whether it is listed as active.
local function activity_of(group)
  return group.in_flight + group.backlog > 0, call('ZSCORE', prefix .. 'active-groups', group.name) ~= false
end

function checks.group(name)
  afford(4 * #places_for(name))
  local group, in_flight = group_state(name), leased_of_group(name)
  for _, place in ipairs(places_for(name)) do members_of(place, name) end
  if is_put_off() then return end
  local has_jobs, listed = activity_of(group)
  check_lanes(group)
  if in_flight and in_flight ~= group.in_flight then
    found('in-flight', '', group.in_flight, in_flight, function()
      group.in_flight = in_flight
      if not group.concurrency or in_flight < group.concurrency then wake_lanes_of(group, 'S') end
    end)
  end
  if has_jobs and not listed then
    found('unlisted', '', 0, 0, function() call('ZADD', prefix .. 'active-groups', 0, name) end)
  elseif listed and not has_jobs then
    found('no-jobs', '', 0, 0, function()
      call('ZREM', prefix .. 'active-groups', name)
      watch_idle(name)
    end)
  end
end
