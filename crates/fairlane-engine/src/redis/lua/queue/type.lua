-- Types and their fair orders: rows are read once and written once. A place is `level:type`.

-- An order, for one level of a type: `virtual_time:epoch:pool:tag:active` in its type's row.
local function parse_order(cx, value, place, level, units)
  local order = {
    virtual_time = 0, epoch = 1, pool = POOL_FULL, tag = 0, active = 0, place = place, units = units,
    key = cx.prefix .. 'fair-queue:' .. level .. sub(place, 2), popped = {}, popped_used = 0, back = {},
    back_count = 0, back_tag = math.huge,
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

-- A type; its limits are `paused:concurrency:dead_at:rate`.
function queue.type_state(cx, name)
  if cx.types[name] then return cx.types[name] end
  local key = cx.prefix .. 'type:' .. name
  local values =
    call('HMGET', key, 'in_flight', 'virtual_time', 'limits', 'bucket', 'cut', 'closed_until', 'goodput',
    'timer', '0', '1', '2', 'asked_at', 'jobs')
  local paused, concurrency, rate = match(values[3] or '0:0:0:0:0:0', '^(%d):(%d+):%d+:(.*)$')
  local state = {
    name = name, key = key, was = values, in_flight = tonumber(values[1] or 0),
    virtual_time = tonumber(values[2] or 0), limits = values[3] or '', bucket = values[4] or '0:0',
    cut = values[5] or '', closed_until = tonumber(values[6] or 0), goodput = values[7] or '',
    timer = values[8] or '', paused = paused == '1', concurrency = tonumber(concurrency), rate = rate,
    asked_at = tonumber(values[12] or 0), jobs = tonumber(values[13] or 0),
    [0] = parse_order(cx, values[9], '0:' .. name, 'high', HIGH_UNITS),
    parse_order(cx, values[10], '1:' .. name, 'normal', NORMAL_UNITS),
    parse_order(cx, values[11], '2:' .. name, 'low', LOW_UNITS),
  }
  cx.types[name] = state
  return state
end

function queue.active_lanes(state)
  return state[0].active + state[1].active + state[2].active
end

function queue.is_active(state)
  return state[0].active + state[1].active + state[2].active > 0
end

local function change_number(changes, state, field, before)
  if state[field] ~= tonumber(before or 0) then kernel.change(changes, field, text(state[field])) end
end

local function write_type(state)
  local was, changes = state.was, {}
  change_number(changes, state, 'in_flight', was[1])
  change_number(changes, state, 'virtual_time', was[2])
  if state.limits ~= (was[3] or '') then kernel.change(changes, 'limits', state.limits) end
  if state.bucket ~= (was[4] or '0:0') then kernel.change(changes, 'bucket', state.bucket) end
  if state.cut ~= (was[5] or '') then kernel.change(changes, 'cut', state.cut) end
  change_number(changes, state, 'closed_until', was[6])
  if state.goodput ~= (was[7] or '') then kernel.change(changes, 'goodput', state.goodput) end
  if state.timer ~= (was[8] or '') then kernel.change(changes, 'timer', state.timer) end
  change_number(changes, state, 'asked_at', was[12])
  change_number(changes, state, 'jobs', was[13])
  for level = 0, 2 do
    local order = state[level]
    if order.back_count > 0 or order.popped[1] then queue.restore_order(order) end
    if order.touched then
      local value = order_text(order)
      if value ~= was[9 + level] then kernel.change(changes, sub(order.place, 1, 1), value) end
    end
  end
  if changes[1] then call('HSET', state.key, unpack(changes)) end
end

-- Whether a job of this type may exist: 1 the type exists, 0 one more fits, nil none fits. The type
-- of callbacks does not count towards the limit.
function queue.has_type(cx, name)
  local key = cx.prefix .. 'types'
  if cx.types_known[name] then return 1 end
  if call('SISMEMBER', key, name) == 1 then
    cx.types_known[name] = true
    return 1
  end
  if name == CALLBACK_TYPE or call('SCARD', key) - call('SISMEMBER', key, CALLBACK_TYPE) < TYPES_MAX then
    return 0
  end
end

-- Creates a type. Its orders start at a new epoch, which invalidates the lanes of a removed
-- type with its name.
function queue.create_type(cx, name)
  local state = queue.type_state(cx, name)
  call('SADD', cx.prefix .. 'types', name)
  call('HSET', state.key, 'jobs', 0)
  cx.types_known[name] = true
  state.was[13] = '0'
  for level = 0, 2 do
    if cx.partition.epochs > 0 then
      state[level].epoch, state[level].touched = cx.partition.epochs + 1, true
    end
  end
end

-- Counts jobs that prevent the removal of their type: unfinished and dead ones. The type may not
-- have been read; `write_types` adds them.
function queue.count_jobs(cx, name, jobs)
  cx.jobs_counted[name] = (cx.jobs_counted[name] or 0) + jobs
end

function queue.write_types(cx)
  for name, jobs in pairs(cx.jobs_counted) do
    local state = cx.types[name]
    if state then
      state.jobs = state.jobs + jobs
    elseif jobs ~= 0 then
      call('HINCRBY', cx.prefix .. 'type:' .. name, 'jobs', jobs)
    end
  end
  for _, state in pairs(cx.types) do write_type(state) end
end
