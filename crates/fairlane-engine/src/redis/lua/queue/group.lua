-- Groups and their lanes: rows are read once and written once. A lane is the text
-- `standing:tag:epoch:remainder:park:returned` in its group's row. In `classic`, a lane in its
-- order has its sequence in the position of `park`, to find it there.
local NEW_COUNTS, NEW_RECORD = '0:0:0:0', '0:0:0:0:0:0'

-- A group's jobs by id, and their runs by `:id`, in one hash. One key per job would be a long
-- string that Lua has to create and look up for every job and step.
function queue.rows_key(cx, name)
  return cx.prefix .. 'group:' .. name .. ':rows'
end

local function parse_lane(place, value)
  local lane = {
    level = byte(place, 1) - 48, type = sub(place, 3), place = place, was = value, standing = 'I', tag = 0,
    epoch = 0, remainder = 0, park = 0, returned = '0',
  }
  if value == 'A:0:0:0:0:0' then -- The most frequent lane: in order, nothing carried, nothing returned.
    lane.standing = 'A'
  elseif value then
    local standing, tag, epoch, remainder, park, returned =
      match(value, '^(%a):(%d+):(%d+):(-?%d+):(%d+):(%d)$')
    lane.standing, lane.tag, lane.epoch = standing, tonumber(tag), tonumber(epoch)
    lane.remainder, lane.park, lane.returned = tonumber(remainder), tonumber(park), returned
  end
  return lane
end

local function lane_text(lane)
  if lane.standing ~= 'A' then
    return format('%s:%d:%d:%d:%d:%s', lane.standing, lane.tag, lane.epoch, lane.remainder, lane.park,
      lane.returned)
  end
  if lane.remainder == 0 and lane.park == 0 and lane.returned == '0' then return 'A:0:0:0:0:0' end
  return format('A:0:0:%d:%d:%s', lane.remainder, lane.park, lane.returned)
end

-- Limits are `weight:paused:concurrency:priority:rate`.
local function parse_limits(group)
  local weight, paused, concurrency, base_priority, rate =
    match(group.limits, '^(%d+):(%d):(%d+):(-?%d+):(.*)$')
  group.weight, group.paused, group.rate = tonumber(weight), paused == '1', rate
  group.base_priority = tonumber(base_priority)
  group.concurrency, group.flow = concurrency ~= '0' and tonumber(concurrency) or nil, kernel.flow_of(rate)
  group.bucket = call('HGET', group.key, 'bucket') or '0:0'
  group.bucket_was = group.bucket
end

-- The field of a group's row for its lane at a place. Most lanes of a call have the same.
local function lane_field(cx, place)
  local field = cx.lane_fields[place]
  if not field then
    field = 'lane:' .. place
    cx.lane_fields[place] = field
  end
  return field
end

-- The group and, with a place, its lane. A wrong count may be negative and must stay readable.
function queue.group_state(cx, name, place)
  local group = cx.groups[name]
  if not group then
    local key = cx.prefix .. 'group:' .. name .. ':meta'
    local values
    if not place then
      values = call('HMGET', key, 'counts', 'limits', 'stored_bytes', 'run')
    elseif cx.reads_records then
      values = call('HMGET', key, 'counts', 'limits', 'stored_bytes', 'run', lane_field(cx, place))
    else
      values = call('HMGET', key, 'counts', 'limits', 'stored_bytes', lane_field(cx, place))
    end
    local counts, stored_bytes = values[1] or NEW_COUNTS, values[3] and tonumber(values[3]) or 0
    local in_flight, backlog, seat_parked, done = 0, 0, 0, 0
    if counts ~= NEW_COUNTS then
      in_flight, backlog, seat_parked, done = match(counts, '^(-?%d+):(-?%d+):(-?%d+):(%d+)$')
      in_flight, backlog, done = tonumber(in_flight), tonumber(backlog), tonumber(done)
      seat_parked = seat_parked == '0' and 0 or tonumber(seat_parked)
    end
    group = {
      name = name, key = key, lanes = {}, weight = 1, counts = counts, in_flight = in_flight, backlog = backlog,
      backlog_was = backlog, was_active = in_flight + backlog > 0, seat_parked = seat_parked, done = done,
      base_priority = 0, stored_bytes = stored_bytes, stored_bytes_was = stored_bytes,
      record_was = (not place or cx.reads_records) and (values[4] or NEW_RECORD),
    }
    if values[2] then
      group.limits, group.limits_was = values[2], values[2]
      parse_limits(group)
    end
    cx.groups[name] = group
    if place then group.lanes[place] = parse_lane(place, values[cx.reads_records and 5 or 4]) end
  elseif place and not group.lanes[place] then
    group.lanes[place] = parse_lane(place, call('HGET', group.key, lane_field(cx, place)))
  end
  return group, place and group.lanes[place]
end

-- A group with its first job becomes active; one without jobs keeps only its limits and
-- lanes, for a while. `write_groups` writes the lists of both.
local function write_activity(cx, group, is_active)
  local list = is_active and cx.activated or cx.idled
  list[#list + 1] = group.name
  if is_active then return end
  if queue.record(group).noted > 0 then call('DEL', queue.history_key(cx, group)) end
  call('HDEL', group.key, 'run')
end

-- Appends a field to changes; returns their new length.
local function add(changes, length, field, value)
  changes[length + 1], changes[length + 2] = field, value
  return length + 2
end

function queue.write_group(cx, group)
  local is_active = group.in_flight + group.backlog > 0
  if group.was_active and not is_active then group.done = 0 end
  local counts = text(group.in_flight) .. ':' .. text(group.backlog) .. ':' .. text(group.seat_parked)
    .. ':' .. text(group.done)
  local changes, count = {'counts', counts}, counts ~= group.counts and 2 or 0
  for place, lane in pairs(group.lanes) do
    local value = lane_text(lane)
    if value ~= (lane.was or 'I:0:0:0:0:0') then count = add(changes, count, lane_field(cx, place), value) end
  end
  local record = (group.record or group.added) and (is_active or not group.was_active)
    and queue.changed_record(group)
  if record then count = add(changes, count, 'run', record) end
  if group.limits ~= group.limits_was then count = add(changes, count, 'limits', group.limits) end
  if group.bucket ~= group.bucket_was then count = add(changes, count, 'bucket', group.bucket) end
  if group.window ~= group.window_was then count = add(changes, count, 'window', group.window) end
  if group.stored_bytes ~= group.stored_bytes_was then
    count = add(changes, count, 'stored_bytes', text(group.stored_bytes))
  end
  if count > 0 then call('HSET', group.key, unpack(changes, 1, count)) end
  if is_active ~= group.was_active then write_activity(cx, group, is_active) end
  if group.is_unindexed or group.backlog ~= group.backlog_was and queue.may_have_moved(group) then
    cx.moved[#cx.moved + 1] = group
  end
end
