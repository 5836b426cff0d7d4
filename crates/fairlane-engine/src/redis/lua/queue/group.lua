-- Groups and their lanes: rows are read once and written once. A lane is the text
-- `standing:tag:epoch:remainder:park:returned` in its group's row. In `classic`, a lane in its
-- order has its sequence in the position of `park`, to find it there.

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

-- The group and, with a place, its lane. A wrong count may be negative and must stay readable.
function queue.group_state(cx, name, place)
  local group = cx.groups[name]
  if not group then
    local key = cx.prefix .. 'group:' .. name .. ':meta'
    local values = call('HMGET', key, 'counts', 'limits', 'lane:' .. (place or ''), 'stored_bytes')
    local in_flight, backlog, seat_parked, done =
      match(values[1] or '0:0:0:0', '^(-?%d+):(-?%d+):(-?%d+):(%d+)$')
    group = {
      name = name, key = key, lanes = {}, weight = 1, counts = values[1] or '0:0:0:0',
      in_flight = tonumber(in_flight), backlog = tonumber(backlog), seat_parked = tonumber(seat_parked),
      done = tonumber(done), base_priority = 0, stored_bytes = tonumber(values[4] or 0),
      stored_bytes_was = tonumber(values[4] or 0),
    }
    group.was_active = group.in_flight + group.backlog > 0
    if values[2] then
      group.limits, group.limits_was = values[2], values[2]
      parse_limits(group)
    end
    cx.groups[name] = group
    if place then group.lanes[place] = parse_lane(place, values[3]) end
  elseif place and not group.lanes[place] then
    group.lanes[place] = parse_lane(place, call('HGET', group.key, 'lane:' .. place))
  end
  return group, place and group.lanes[place]
end

-- Counts of a group besides `done`: waiting jobs, jobs of its run, throttles of ended jobs, jobs
-- ended before that count, second of the newest snapshot, newest backoff. Read only when needed.
function queue.record(group)
  if group.record then return group.record end
  group.record_was = call('HGET', group.key, 'run') or '0:0:0:0:0:0'
  local waiting, total, throttles, since, noted, backoff =
    match(group.record_was, '^(-?%d+):(%d+):(%d+):(%d+):(%d+):(%d+)$')
  local known = {
    waiting = tonumber(waiting), total = tonumber(total), throttles = tonumber(throttles),
    since = tonumber(since), noted = tonumber(noted), backoff = tonumber(backoff),
  }
  group.record = known
  return known
end

local function record_text(known)
  return format('%d:%d:%d:%d:%d:%d', known.waiting, known.total, known.throttles, known.since, known.noted,
    known.backoff)
end

-- A group with its first job becomes active; one without jobs keeps only its limits and
-- lanes, for a while.
local function write_activity(cx, group, is_active)
  if is_active then return call('ZADD', cx.prefix .. 'active-groups', 0, group.name) end
  call('ZREM', cx.prefix .. 'active-groups', group.name)
  if queue.record(group).noted > 0 then call('DEL', queue.history_key(cx, group)) end
  call('HDEL', group.key, 'run')
  queue.watch_idle(cx, group.name)
end

function queue.write_group(cx, group)
  local changes = {}
  local is_active = group.in_flight + group.backlog > 0
  if group.was_active and not is_active then group.done = 0 end
  local counts = format('%d:%d:%d:%d', group.in_flight, group.backlog, group.seat_parked, group.done)
  if counts ~= group.counts then kernel.change(changes, 'counts', counts) end
  for place, lane in pairs(group.lanes) do
    local value = lane_text(lane)
    if value ~= (lane.was or 'I:0:0:0:0:0') then kernel.change(changes, 'lane:' .. place, value) end
  end
  local known = group.record and (is_active or not group.was_active) and record_text(group.record)
  if known and known ~= group.record_was then kernel.change(changes, 'run', known) end
  if group.limits ~= group.limits_was then kernel.change(changes, 'limits', group.limits) end
  if group.bucket ~= group.bucket_was then kernel.change(changes, 'bucket', group.bucket) end
  if group.window ~= group.window_was then kernel.change(changes, 'window', group.window) end
  if group.stored_bytes ~= group.stored_bytes_was then
    kernel.change(changes, 'stored_bytes', text(group.stored_bytes))
  end
  if changes[1] then call('HSET', group.key, unpack(changes)) end
  if is_active ~= group.was_active then write_activity(cx, group, is_active) end
end
