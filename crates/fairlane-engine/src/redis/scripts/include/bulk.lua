-- Bulk actions: the hash `bulk:{number}`, read once and written once. Numbers are kept as text.
-- `payload` and `summary` may be long and are read only for views.
local bulks, bulk_texts, bulk_fields = {}, {
  name = true, state = true, course = true, cause = true, worker = true,
}, {
  'name', 'state', 'course', 'sealed', 'total', 'succeeded', 'failed', 'cancelled', 'created_at', 'started_at',
  'finished_at', 'deadline', 'fails_at', 'fence', 'cause', 'aggregated', 'worker',
}

-- The bulk action with this number, or false if it no longer exists.
local function bulk_state(number)
  local bulk = bulks[number]
  if bulk ~= nil then return bulk end
  local key = prefix .. 'bulk:' .. number
  local values = call('HMGET', key, unpack(bulk_fields))
  bulk = false
  if values[1] then
    bulk = {number = number, key = key, was = values, chunk = {}}
    for index, field in ipairs(bulk_fields) do
      if bulk_texts[field] then bulk[field] = values[index] or '' else bulk[field] = tonumber(values[index] or 0) end
    end
  end
  bulks[number] = bulk
  return bulk
end

local function write_bulk(bulk)
  if not bulk or bulk.gone then return end
  local changes = {}
  for index, field in ipairs(bulk_fields) do
    local value = bulk[field]
    if type(value) == 'number' then value = text(value) end
    if value ~= (bulk.was[index] or (bulk_texts[field] and '' or '0')) then
      changes[#changes + 1] = field
      changes[#changes + 1] = value
    end
  end
  if #changes > 0 then call('HSET', bulk.key, unpack(changes)) end
end

write_bulks = function()
  for _, bulk in pairs(bulks) do write_bulk(bulk) end
end

-- The number of a group's bulk action with this name, or nil.
local function bulk_number(group_name, name)
  local score = call('ZSCORE', prefix .. 'group:' .. group_name .. ':bulks', name)
  return score and text(tonumber(score))
end

local function padded_number(bulk)
  return format('%016d', tonumber(bulk.number))
end

local function bulk_ended(bulk)
  return bulk.succeeded + bulk.failed + bulk.cancelled
end

local function is_final(bulk)
  return bulk.state == 'COMPLETED' or bulk.state == 'FAILED' or bulk.state == 'CANCELLED'
end

-- Appends the fields of a bulk action's view to a reply.
local function show_bulk(reply, bulk)
  local function time(at)
    return at == 0 and '' or text(at)
  end
  for _, item in ipairs({
    bulk.name, bulk.state, bulk.course, text(bulk.sealed), text(bulk.total), text(bulk.succeeded), text(bulk.failed),
    text(bulk.cancelled), call('LLEN', bulk.key .. ':held'), text(bulk.created_at), time(bulk.started_at),
    time(bulk.finished_at), time(bulk.deadline), text(bulk.fails_at), bulk.cause,
  }) do reply[#reply + 1] = item end
  for _, item in ipairs(call('HMGET', bulk.key, 'summary', 'payload')) do reply[#reply + 1] = item or '' end
  return reply
end

-- Updates the state when a job of a bulk action was admitted or leased.
local function bulk_reached(bulk, state)
  if bulk.state == 'CREATED' or bulk.state == 'DISPATCHED' and state == 'RUNNING' then
    bulk.state = state
    if state == 'RUNNING' then bulk.started_at = now end
  end
end

-- Adds a bulk action to the list of those to sweep, once.
local function sweep_later(bulk)
  local key = prefix .. 'sweeping'
  if not call('LPOS', key, bulk.number) then call('RPUSH', key, bulk.number) end
end

-- Whether it waits for aggregation or is leased for it.
local function is_to_be_taken(bulk)
  local dropped_wholly = is_final(bulk) and bulk_ended(bulk) == bulk.total
  return bulk.aggregated == 0 and (bulk.state == 'AGGREGATING' or dropped_wholly)
end

-- Ends the lease that a worker has on a bulk action.
local function let_go(bulk)
  if bulk.worker == '' then return end
  call('ZREM', prefix .. 'taken', bulk.worker .. ':' .. padded_number(bulk))
  bulk.worker = ''
end

-- Makes a bulk action unavailable for aggregation; 1 if it was available.
local function take_no_more(bulk)
  let_go(bulk)
  return call('ZREM', prefix .. 'aggregating', padded_number(bulk))
end

-- Makes a bulk action available for aggregation, now or from `at` on, unless it is already.
local function hand_out(bulk, at)
  if call('ZADD', prefix .. 'aggregating', 'NX', text(at or now), padded_number(bulk)) == 1 then let_go(bulk) end
end

-- Sets the final state of a bulk action.
local function finish(bulk, state)
  bulk.state, bulk.finished_at = state, now
  local member = padded_number(bulk)
  call('ZADD', prefix .. 'finished-bulks', text(now), member)
  if bulk.deadline > 0 then call('ZREM', prefix .. 'bulk-deadlines', member) end
  local group_name, name = match(bulk.name, '^([^:]+):(.+)$')
  call('ZREM', prefix .. 'group:' .. group_name .. ':unfinished', name)
  take_no_more(bulk)
end

-- Ends a bulk action in a state that drops its remaining jobs. A running aggregation becomes stale,
-- because it has not seen the final state.
local function drop_bulk(bulk, state)
  finish(bulk, state)
  bulk.course, bulk.fence = 'drop', 0
  if bulk_ended(bulk) < bulk.total or call('EXISTS', bulk.key .. ':held') == 1 then sweep_later(bulk) end
  if is_to_be_taken(bulk) then hand_out(bulk) end
end

-- Checks whether a bulk action has ended after its counts or its seal have changed.
local function review_bulk(bulk)
  if is_final(bulk) and is_to_be_taken(bulk) then hand_out(bulk) end
  if is_final(bulk) or bulk.state == 'AGGREGATING' then return end
  if bulk.fails_at > 0 and bulk.failed >= bulk.fails_at then
    bulk.cause = 'failures'
    return drop_bulk(bulk, 'FAILED')
  end
  if bulk.sealed == 1 and bulk_ended(bulk) == bulk.total then
    -- Jobs still on hold were cancelled there and only have to leave.
    bulk.state, bulk.course = 'AGGREGATING', 'run'
    hand_out(bulk)
    if call('EXISTS', bulk.key .. ':held') == 1 then sweep_later(bulk) end
  end
end
