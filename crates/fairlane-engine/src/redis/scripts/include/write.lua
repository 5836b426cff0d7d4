-- Writes changed rows back, and wakes workers.
local function history_key(group)
  return prefix .. 'congestion:' .. group.name .. ':history'
end

local function record_text(known)
  return format('%d:%d:%d:%d:%d:%d', known.waiting, known.total, known.throttles, known.since, known.noted, known.backoff)
end

-- Schedules the check of an idle group, unless one is scheduled.
local function watch_idle(name)
  call('ZADD', prefix .. 'idle-groups', 'NX', text(now + GROUP_IDLE_US), name)
end

-- A group with its first job becomes active; one without jobs keeps only its limits and
-- lanes, for a while.
local function write_activity(group, is_active)
  if is_active then return call('ZADD', prefix .. 'active-groups', 0, group.name) end
  call('ZREM', prefix .. 'active-groups', group.name)
  if record(group).noted > 0 then call('DEL', history_key(group)) end
  call('HDEL', group.key, 'run')
  watch_idle(group.name)
end

local function write_group(group)
  local changes, count = {}, 0
  local is_active = group.in_flight + group.backlog > 0
  if group.was_active and not is_active then group.done = 0 end
  local counts = format('%d:%d:%d:%d', group.in_flight, group.backlog, group.seat_parked, group.done)
  if counts ~= group.counts then
    changes[1], changes[2], count = 'counts', counts, 2
  end
  for place, lane in pairs(group.lanes) do
    local value = lane_text(lane)
    if value ~= (lane.was or 'I:0:0:0:0:0') then
      changes[count + 1], changes[count + 2] = 'lane:' .. place, value
      count = count + 2
    end
  end
  local known = group.record and (is_active or not group.was_active) and record_text(group.record)
  if known and known ~= group.record_was then
    changes[count + 1], changes[count + 2] = 'run', known
    count = count + 2
  end
  if group.limits ~= group.limits_was then
    changes[count + 1], changes[count + 2] = 'limits', group.limits
    count = count + 2
  end
  if group.bucket ~= group.bucket_was then
    changes[count + 1], changes[count + 2] = 'bucket', group.bucket
    count = count + 2
  end
  if group.window ~= group.window_was then
    changes[count + 1], changes[count + 2] = 'window', group.window
    count = count + 2
  end
  if group.stored_bytes ~= group.stored_bytes_was then
    changes[count + 1], changes[count + 2] = 'stored_bytes', text(group.stored_bytes)
    count = count + 2
  end
  if count > 0 then call('HSET', group.key, unpack(changes)) end
  if is_active ~= group.was_active then write_activity(group, is_active) end
end

-- Counts jobs that prevent the removal of their type: unfinished and dead ones.
local function count_jobs(name, jobs)
  local state = types[name]
  if state then
    state.jobs = state.jobs + jobs
  else
    call('HINCRBY', prefix .. 'type:' .. name, 'jobs', jobs)
  end
end

-- Whether a job of this type may exist: 1 the type exists, 0 one more fits, nil none fits. The type
-- of callbacks does not count towards the limit.
local function has_type(name)
  local key = prefix .. 'types'
  if call('SISMEMBER', key, name) == 1 then return 1 end
  if name == CALLBACK_TYPE or call('SCARD', key) - call('SISMEMBER', key, CALLBACK_TYPE) < TYPES_MAX then return 0 end
end

-- Creates a type. Its orders start at a new epoch, which invalidates the lanes of a removed
-- type with its name.
local function create_type(name)
  local state = type_state(name)
  call('SADD', prefix .. 'types', name)
  call('HSET', state.key, 'jobs', 0)
  state.was[13] = '0'
  for level = 0, 2 do
    if partition.epochs > 0 then state[level].epoch, state[level].touched = partition.epochs + 1, true end
  end
end

local function push_token(name)
  tokens[name] = (tokens[name] or 0) + 1
end

local function write_removed_bytes()
  for name, bytes in pairs(bytes_removed) do
    local group = groups[name]
    if group then
      group.stored_bytes = group.stored_bytes - bytes
    elseif bytes > 0 then
      call('HINCRBY', prefix .. 'group:' .. name .. ':meta', 'stored_bytes', text(-bytes))
    end
  end
end

local function write_all()
  write_removed_bytes()
  for _, group in pairs(groups) do write_group(group) end
  if write_bulks then write_bulks() end
  for _, state in pairs(types) do write_type(state) end
  write_partition()
  for name, count in pairs(tokens) do
    local key, pushed = prefix .. 'wake:' .. name, {}
    for index = 1, min(count, TOKENS_MAX) do pushed[index] = '1' end
    if call('RPUSH', key, unpack(pushed)) > TOKENS_MAX then call('LTRIM', key, 0, TOKENS_MAX - 1) end
  end
end
