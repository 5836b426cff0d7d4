-- Groups, types, lanes: rows are read once and written once. A place is `level:type`. A lane is the
-- text `standing:tag:epoch:remainder:park:returned` in its group's row. In `classic`, a lane in its
-- order has its sequence in the position of `park`, to find it there.
local types, groups, tokens, write_bulks, bytes_removed = {}, {}, {}, nil, {}

-- A group's jobs by id, and their runs by `:id`, in one hash. One key per job would be a long
-- string that Lua has to create and look up for every job and step.
local function rows_key(name)
  return prefix .. 'group:' .. name .. ':rows'
end

-- An order, for one level of a type: `virtual_time:epoch:pool:tag:active` in its type's row.
local function parse_order(value, place, level, units)
  local order = {
    virtual_time = 0, epoch = 1, pool = POOL_FULL, tag = 0, active = 0, place = place, units = units,
    key = prefix .. 'fair-queue:' .. level .. sub(place, 2),
  }
  if value then
    local virtual_time, epoch, pool, tag, active = match(value, '^(%d+):(%d+):(%d+):(%d+):(-?%d+)$')
    order.virtual_time, order.epoch, order.pool = tonumber(virtual_time), tonumber(epoch), tonumber(pool)
    order.tag, order.active = tonumber(tag), tonumber(active)
  end
  return order
end

local function order_text(order)
  return format('%d:%d:%d:%d:%d', order.virtual_time, order.epoch, order.pool, order.tag, order.active)
end

-- Limits: type `paused:concurrency:dead_at:rate`, group `weight:paused:concurrency:priority:rate`.
local function type_state(name)
  if types[name] then return types[name] end
  local key = prefix .. 'type:' .. name
  local values = call('HMGET', key, 'in_flight', 'virtual_time', 'limits', 'bucket', 'cut', 'closed_until', 'goodput',
    'timer', '0', '1', '2', 'asked_at', 'jobs')
  local paused, concurrency, rate = match(values[3] or '0:0:0:0:0:0', '^(%d):(%d+):%d+:(.*)$')
  local state = {
    name = name, key = key, was = values, in_flight = tonumber(values[1] or 0), virtual_time = tonumber(values[2] or 0),
    limits = values[3] or '', bucket = values[4] or '0:0', cut = values[5] or '', closed_until = tonumber(values[6] or 0),
    goodput = values[7] or '', timer = values[8] or '', paused = paused == '1', concurrency = tonumber(concurrency),
    rate = rate, asked_at = tonumber(values[12] or 0), jobs = tonumber(values[13] or 0),
    [0] = parse_order(values[9], '0:' .. name, 'high', HIGH_UNITS),
    parse_order(values[10], '1:' .. name, 'normal', NORMAL_UNITS), parse_order(values[11], '2:' .. name, 'low', LOW_UNITS),
  }
  types[name] = state
  return state
end

local function is_active(state)
  return state[0].active + state[1].active + state[2].active > 0
end

local function write_type(state)
  local was, changes, count = state.was, {}, 0
  local function write(field, value, before)
    if value ~= before then
      changes[count + 1], changes[count + 2] = field, value
      count = count + 2
    end
  end
  local function write_number(field, value, before)
    if value ~= tonumber(before or 0) then write(field, text(value)) end
  end
  write_number('in_flight', state.in_flight, was[1])
  write_number('virtual_time', state.virtual_time, was[2])
  write('limits', state.limits, was[3] or '')
  write('bucket', state.bucket, was[4] or '0:0')
  write('cut', state.cut, was[5] or '')
  write_number('closed_until', state.closed_until, was[6])
  write('goodput', state.goodput, was[7] or '')
  write('timer', state.timer, was[8] or '')
  write_number('asked_at', state.asked_at, was[12])
  write_number('jobs', state.jobs, was[13])
  for level = 0, 2 do
    if state[level].touched then write(sub(state[level].place, 1, 1), order_text(state[level]), was[9 + level]) end
  end
  if count > 0 then call('HSET', state.key, unpack(changes)) end
end

local function parse_lane(place, value)
  local lane = {
    level = byte(place, 1) - 48, type = sub(place, 3), place = place, was = value, standing = 'I', tag = 0, epoch = 0,
    remainder = 0, park = 0, returned = '0',
  }
  if value == 'A:0:0:0:0:0' then -- The most frequent lane: in order, nothing carried, nothing returned.
    lane.standing = 'A'
  elseif value then
    local standing, tag, epoch, remainder, park, returned = match(value, '^(%a):(%d+):(%d+):(-?%d+):(%d+):(%d)$')
    lane.standing, lane.tag, lane.epoch = standing, tonumber(tag), tonumber(epoch)
    lane.remainder, lane.park, lane.returned = tonumber(remainder), tonumber(park), returned
  end
  return lane
end

local function lane_text(lane)
  if lane.standing ~= 'A' then
    return format('%s:%d:%d:%d:%d:%s', lane.standing, lane.tag, lane.epoch, lane.remainder, lane.park, lane.returned)
  end
  if lane.remainder == 0 and lane.park == 0 and lane.returned == '0' then return 'A:0:0:0:0:0' end
  return format('A:0:0:%d:%d:%s', lane.remainder, lane.park, lane.returned)
end

local function parse_limits(group)
  local weight, paused, concurrency, base_priority, rate = match(group.limits, '^(%d+):(%d):(%d+):(-?%d+):(.*)$')
  group.weight, group.paused, group.rate = tonumber(weight), paused == '1', rate
  group.base_priority = tonumber(base_priority)
  group.concurrency, group.flow = concurrency ~= '0' and tonumber(concurrency) or nil, flow_of(rate)
  group.bucket = call('HGET', group.key, 'bucket') or '0:0'
  group.bucket_was = group.bucket
end

-- The group and, with a place, its lane. A wrong count may be negative and must stay readable.
local function group_state(name, place)
  local group = groups[name]
  if not group then
    local key = prefix .. 'group:' .. name .. ':meta'
    local values = call('HMGET', key, 'counts', 'limits', 'lane:' .. (place or ''), 'stored_bytes')
    local in_flight, backlog, seat_parked, done = match(values[1] or '0:0:0:0', '^(-?%d+):(-?%d+):(-?%d+):(%d+)$')
    group = {
      name = name, key = key, lanes = {}, weight = 1, counts = values[1] or '0:0:0:0', in_flight = tonumber(in_flight),
      backlog = tonumber(backlog), seat_parked = tonumber(seat_parked), done = tonumber(done), base_priority = 0,
      stored_bytes = tonumber(values[4] or 0), stored_bytes_was = tonumber(values[4] or 0),
    }
    group.was_active = group.in_flight + group.backlog > 0
    if values[2] then
      group.limits, group.limits_was = values[2], values[2]
      parse_limits(group)
    end
    groups[name] = group
    if place then group.lanes[place] = parse_lane(place, values[3]) end
  elseif place and not group.lanes[place] then
    group.lanes[place] = parse_lane(place, call('HGET', group.key, 'lane:' .. place))
  end
  return group, place and group.lanes[place]
end

-- Counts of a group besides `done`: waiting jobs, jobs of its run, throttles of ended jobs, jobs
-- ended before that count, second of the newest snapshot, newest backoff. Read only when needed.
local function record(group)
  if group.record then return group.record end
  group.record_was = call('HGET', group.key, 'run') or '0:0:0:0:0:0'
  local waiting, total, throttles, since, noted, backoff =
    match(group.record_was, '^(-?%d+):(%d+):(%d+):(%d+):(%d+):(%d+)$')
  local known = {
    waiting = tonumber(waiting), total = tonumber(total), throttles = tonumber(throttles), since = tonumber(since),
    noted = tonumber(noted), backoff = tonumber(backoff),
  }
  group.record = known
  return known
end
