-- The checks by kind of suspect. Each reads first and then reports its findings.

local function words_of(spots)
  local words = {}
  for index, spot in ipairs(spots) do words[index] = spot.word end
  return table.concat(words, ', ')
end

-- Removes a job from all places but the first `kept`.
local function keep(cx, job, spots, kept)
  for index = #spots, kept + 1, -1 do queue.take_from(cx, job, spots[index]) end
end

local function put_job_back(cx, job, spots)
  keep(cx, job, spots, 0)
  if job.with_bulk then
    call('ZREM', cx.prefix .. 'bulk:' .. job.number .. ':waiting',
      queue.placed_name(job.place, job.name, job.number))
  end
  if job.cancelled then return queue.file_now(cx, job) end
  local group, lane = queue.group_state(cx, job.group, job.place)
  queue.return_to_lane(cx, group, lane, job.id, 'RPUSH')
end

-- Checks a job that has ended: it must have left its places.
local function check_ended(cx, job, spots)
  local filed = queue.is_filed(cx, job)
  if queue.is_put_off(cx) then return end
  if #spots > 0 then
    local detail = words_of(spots) .. ', and it has ended'
    queue.report(cx, 'two-places', detail, 0, #spots + 1, function() keep(cx, job, spots, 0) end)
  end
  if filed == false then queue.report(cx, 'unfiled', '', 0, 0, function() queue.file_now(cx, job) end) end
end

function queue.check_job(cx, suspect)
  local name = suspect.group .. ':' .. suspect.id
  local job = queue.rows_of(cx, name)
  queue.afford(cx, 4 * #queue.places_for(cx, job.group))
  local spots, dead = queue.spots_of(cx, job), call('ZSCORE', cx.prefix .. 'failed', name)
  if cx.too_large then return end
  if not job.row then
    if not job.run and not dead and #spots == 0 then return end
    local where = job.run and 'the rows of its group' or dead and 'the list of the dead' or words_of(spots)
    return queue.report(cx, 'no-row', where, 0, 0, function()
      keep(cx, job, spots, 0)
      call('HDEL', queue.rows_key(cx, job.group), ':' .. job.id)
      call('ZREM', cx.prefix .. 'failed', name)
    end)
  end
  if dead and (job.state ~= 'F' or job.cancelled) then
    queue.report(cx, 'not-dead', '', 0, 0, function() call('ZREM', cx.prefix .. 'failed', name) end)
  end
  if job.state ~= 'N' and not job.cancelled then return check_ended(cx, job, spots) end
  local first = spots[1]
  local is_elsewhere = first and first.place and first.place ~= job.place
  local strays = is_elsewhere
    or first and job.cancelled and (first.word == 'in flight' or first.word == 'waiting')
  if not first or strays and #spots == 1 then
    return queue.report(cx, 'no-place', '', 0, 0, function() put_job_back(cx, job, spots) end)
  elseif #spots > 1 then
    return queue.report(cx, 'two-places', words_of(spots), 0, #spots, function()
      if strays then put_job_back(cx, job, spots) else keep(cx, job, spots, 1) end
    end)
  end
  if first.word == 'in flight' and not queue.is_watched(cx, job) then
    queue.report(cx, 'no-lease', '', 0, 0, function() queue.give_deadline(cx, job) end)
  elseif first.word == 'waiting' and job.with_bulk then
    local index = cx.prefix .. 'bulk:' .. job.number .. ':waiting'
    if not call('ZSCORE', index, first.member) then
      queue.report(cx, 'not-indexed', '', 0, 0, function() call('ZADD', index, 0, first.member) end)
    end
  end
end

-- The fault of a lane's standing, or nil.
function queue.lane_fault(cx, group, lane, members, jobs, returned)
  local standing, member = lane.standing, lane.place .. ':' .. group.name
  local parked, clearing = call('ZSCORE', cx.prefix .. 'parked', member),
    call('ZSCORE', cx.prefix .. 'clearing', member)
  if members and standing == 'A' and #members == 0 then return 'not-in-order' end
  if members and standing == 'A' and #members > 1 then return 'twice-in-order' end
  if members and standing ~= 'A' and #members > 0 then return 'stranger' end
  if standing == 'I' and jobs + returned > 0 then return 'idle' end
  if standing == 'R' and not parked then return 'not-parked' end
  if standing ~= 'R' and parked then return 'stray-park' end
  if standing == 'C' and not clearing then return 'not-cleared' end
  if standing ~= 'C' and clearing then return 'stray-clear' end
  if standing == 'S' and (not group.concurrency or group.in_flight < group.concurrency) then
    return 'seats-free'
  end
  if standing == 'P' and not group.paused then return 'not-paused' end
  if (lane.returned == '1') ~= (returned > 0) then return 'returned' end
end

local function check_lanes(cx, group)
  local parked = 0
  for _, place in ipairs(queue.places_for(cx, group.name)) do
    local _, lane = queue.group_state(cx, group.name, place)
    local members = queue.members_of(cx, place, group.name)
    local jobs, returned = queue.lane_lengths(cx, group, place)
    local fault = queue.lane_fault(cx, group, lane, members, jobs, returned)
    if fault then
      local detail = fault == 'stranger' and 'lane ' .. place or place
      queue.report(cx, fault, detail, 0, members and #members or 0, function()
        queue.mend_lane(cx, group, lane, members, jobs + returned > 0)
      end)
    end
    if lane.standing == 'S' then parked = parked + 1 end
  end
  if parked ~= group.seat_parked then
    queue.report(cx, 'seat-parked', '', group.seat_parked, parked, function() group.seat_parked = parked end)
  end
end

-- Whether a group has jobs, and whether it is listed as active.
function queue.activity_of(cx, group)
  return group.in_flight + group.backlog > 0,
    call('ZSCORE', cx.prefix .. 'active-groups', group.name) ~= false
end

function queue.check_group(cx, name)
  queue.afford(cx, 4 * #queue.places_for(cx, name))
  local group, in_flight = queue.group_state(cx, name), queue.leased_of_group(cx, name)
  for _, place in ipairs(queue.places_for(cx, name)) do queue.members_of(cx, place, name) end
  if queue.is_put_off(cx) then return end
  local has_jobs, listed = queue.activity_of(cx, group)
  check_lanes(cx, group)
  if in_flight and in_flight ~= group.in_flight then
    queue.report(cx, 'in-flight', '', group.in_flight, in_flight, function()
      group.in_flight = in_flight
      if not group.concurrency or in_flight < group.concurrency then queue.wake_lanes_of(cx, group, 'S') end
    end)
  end
  if has_jobs and not listed then
    queue.report(cx, 'unlisted', '', 0, 0, function() call('ZADD', cx.prefix .. 'active-groups', 0, name) end)
  elseif listed and not has_jobs then
    queue.report(cx, 'no-jobs', '', 0, 0, function()
      call('ZREM', cx.prefix .. 'active-groups', name)
      queue.watch_idle(cx, name)
    end)
  end
  queue.check_settings(cx, group)
  local stored, expected = queue.magnitudes_of(cx, group)
  if stored ~= expected then
    queue.report(cx, 'magnitude', '', stored, expected, function() group.is_unindexed = true end)
  end
end
