-- Bulk actions: the hash `bulk:{number}`, read once and written once. Numbers are kept as text.
-- `payload` and `summary` may be long and are read only for views.
local BULK_TEXTS = {name = true, state = true, course = true, cause = true, worker = true}
local BULK_FIELDS = {
  'name', 'state', 'course', 'sealed', 'total', 'succeeded', 'failed', 'cancelled', 'created_at',
  'started_at', 'finished_at', 'deadline', 'fails_at', 'fence', 'cause', 'aggregated', 'worker',
}

-- The bulk action with this number, or false if it no longer exists.
function queue.bulk_state(cx, number)
  local bulk = cx.bulks[number]
  if bulk ~= nil then return bulk end
  local key = cx.prefix .. 'bulk:' .. number
  local values = call('HMGET', key, unpack(BULK_FIELDS))
  bulk = false
  if values[1] then
    bulk = {number = number, key = key, was = values, chunk = {}}
    for index, field in ipairs(BULK_FIELDS) do
      if BULK_TEXTS[field] then
        bulk[field] = values[index] or ''
      else
        bulk[field] = tonumber(values[index] or 0)
      end
    end
  end
  cx.bulks[number] = bulk
  return bulk
end

local function write_bulk(bulk)
  if not bulk or bulk.gone then return end
  local changes = {}
  for index, field in ipairs(BULK_FIELDS) do
    local value = bulk[field]
    if type(value) == 'number' then value = text(value) end
    local before = bulk.was[index] or (BULK_TEXTS[field] and '' or '0')
    if value ~= before then kernel.change(changes, field, value) end
  end
  if changes[1] then call('HSET', bulk.key, unpack(changes)) end
end

function queue.write_bulks(cx)
  for _, bulk in pairs(cx.bulks) do write_bulk(bulk) end
end

-- The number of a group's bulk action with this name, or nil.
function queue.bulk_number(cx, group_name, name)
  local score = call('ZSCORE', cx.prefix .. 'group:' .. group_name .. ':bulks', name)
  return score and text(tonumber(score)) or nil
end

function queue.padded_number(bulk)
  return format('%016d', tonumber(bulk.number))
end

function queue.bulk_ended(bulk)
  return bulk.succeeded + bulk.failed + bulk.cancelled
end

function queue.is_final(bulk)
  return bulk.state == 'COMPLETED' or bulk.state == 'FAILED' or bulk.state == 'CANCELLED'
end

-- The view of a bulk action.
function queue.view_bulk(bulk)
  local group, id = match(bulk.name, '^([^:]+):(.+)$')
  local summary, payload = unpack(call('HMGET', bulk.key, 'summary', 'payload'))
  return {
    bulk = {group = group, id = id}, state = bulk.state, mode = bulk.course, sealed = bulk.sealed == 1,
    total = bulk.total, succeeded = bulk.succeeded, failed = bulk.failed, cancelled = bulk.cancelled,
    on_hold = call('LLEN', bulk.key .. ':held'), created_at = bulk.created_at,
    started_at = positive(bulk.started_at), finished_at = positive(bulk.finished_at),
    deadline = positive(bulk.deadline), failures_max = positive(bulk.fails_at) and bulk.fails_at - 1,
    cause = bulk.cause ~= '' and bulk.cause or nil, summary = summary or '', payload = payload or '',
  }
end

-- Updates the state when a job of a bulk action was admitted or leased.
function queue.bulk_reached(cx, bulk, state)
  if bulk.state == 'CREATED' or bulk.state == 'DISPATCHED' and state == 'RUNNING' then
    bulk.state = state
    if state == 'RUNNING' then bulk.started_at = cx.now end
  end
end

-- Adds a bulk action to the list of those to sweep, once.
function queue.sweep_later(cx, bulk)
  local key = cx.prefix .. 'sweeping'
  if not call('LPOS', key, bulk.number) then call('RPUSH', key, bulk.number) end
end

-- Sets the final state of a bulk action.
function queue.finish(cx, bulk, state)
  bulk.state, bulk.finished_at = state, cx.now
  local member = queue.padded_number(bulk)
  call('ZADD', cx.prefix .. 'finished-bulks', text(cx.now), member)
  if bulk.deadline > 0 then call('ZREM', cx.prefix .. 'bulk-deadlines', member) end
  local group_name, name = match(bulk.name, '^([^:]+):(.+)$')
  call('ZREM', cx.prefix .. 'group:' .. group_name .. ':unfinished', name)
  queue.take_no_more(cx, bulk)
end

-- Ends a bulk action in a state that drops its remaining jobs. A running aggregation becomes stale,
-- because it has not seen the final state.
function queue.drop_bulk(cx, bulk, state)
  queue.finish(cx, bulk, state)
  bulk.course, bulk.fence = 'drop', 0
  if queue.bulk_ended(bulk) < bulk.total or call('EXISTS', bulk.key .. ':held') == 1 then
    queue.sweep_later(cx, bulk)
  end
  if queue.is_to_be_taken(bulk) then queue.hand_out(cx, bulk) end
end

-- Checks whether a bulk action has ended after its counts or its seal have changed.
function queue.review_bulk(cx, bulk)
  if queue.is_final(bulk) and queue.is_to_be_taken(bulk) then queue.hand_out(cx, bulk) end
  if queue.is_final(bulk) or bulk.state == 'AGGREGATING' then return end
  if bulk.fails_at > 0 and bulk.failed >= bulk.fails_at then
    bulk.cause = 'failures'
    return queue.drop_bulk(cx, bulk, 'FAILED')
  end
  if bulk.sealed == 1 and queue.bulk_ended(bulk) == bulk.total then
    -- Jobs still on hold were cancelled there and only have to leave.
    bulk.state, bulk.course = 'AGGREGATING', 'run'
    queue.hand_out(cx, bulk)
    if call('EXISTS', bulk.key .. ':held') == 1 then queue.sweep_later(cx, bulk) end
  end
end
