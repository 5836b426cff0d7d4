-- One room: the hash `room:<room>` with its settings and counts, and the keys that begin with
-- `queue:<room>:` (for the room `default`, with `queue:`). `waiting` has the tokens of the waiters of
-- class 0 by their number, `waiting:<class>` those of the other classes; `active` has tokens by the
-- end of their place, `silent` those of waiters by the time at which they are dropped. `users` has
-- the token of each user, `tokens` the class (or `active`) and the user of each token.

-- A poll needs the fields that `read` returns; `complete` reads the others.
local OTHER_FIELDS = {
  'seed', 'commitment', 'digest', 'tickets', 'next', 'virtual_time', 'bucket', 'cut', 'closed_until', 'goodput',
  'totals', 'idle_since',
}
local SETTINGS = '^(%d+):(%d+):(%d+):(%d+):(%d+:%d+:%d+):(.+)$'
local WINDOW = '^(%d+),(%d+),(%d+),(%d+)$'
local NO_GOODPUT = '0:0:0:0:0:0:0:0:0:0:0'

-- The numbers of a list that commas separate.
local function numbers(list)
  local values = {tonumber(list)}
  if values[1] then return values end
  for number in string.gmatch(list, '%d+') do values[#values + 1] = tonumber(number) end
  return values
end

local function joined(values)
  local texts = {}
  for index, value in ipairs(values) do texts[index] = text(value) end
  return table.concat(texts, ',')
end

-- The beginning of the keys with the places of a room.
function room.queue_keys(rooms, name)
  return name == 'default' and rooms .. 'queue:' or rooms .. 'queue:' .. name .. ':'
end

local function named(cx, name)
  return {
    name = name, key = cx.rooms .. 'room:' .. name, keys = room.queue_keys(cx.rooms, name), counts = {}, firsts = {},
    moved = 0,
  }
end

-- The numbers of a window of measured admissions.
function room.window_of(window)
  local at, count, count_before, before_ms = match(window, WINDOW)
  return tonumber(at), tonumber(count), tonumber(count_before), tonumber(before_ms)
end

-- Takes over the settings in their text form.
function room.set_settings(state, settings)
  local max_active, active_ttl_ms, retention_ms, polls, rate, weights = match(settings, SETTINGS)
  state.settings, state.rate, state.weights = settings, rate, numbers(weights)
  state.max_active, state.active_ttl_ms, state.retention_ms, state.polls =
    tonumber(max_active), tonumber(active_ttl_ms), tonumber(retention_ms), tonumber(polls)
end

function room.settings_text(settings)
  return format('%d:%d:%d:%d:%s:%s', settings.max_active, settings.active_ttl_ms, settings.retention_ms,
    settings.polls_per_second, kernel.rate_text(settings.rate), joined(settings.weights))
end

-- A room without places and with default settings.
function room.new(cx, name)
  local state = named(cx, name)
  room.set_settings(state, 'ROOM_DEFAULT_SETTINGS')
  state.phase, state.tags, state.window = 'open', {0}, {0, 0, 0, 0}
  state.seed, state.commitment, state.digest, state.tickets = '', '', '', 0
  state.next, state.virtual_time = 1, 0
  state.bucket, state.cut, state.closed_until, state.goodput = '0:0', '', 0, NO_GOODPUT
  state.totals, state.idle_since = {0, 0, 0, 0, 0, 0}, 0
  state.changed, state.is_new, state.is_complete = true, true, true
  return state
end

-- The fields of a room that a poll needs: its settings (false if there is no such room), phase, reason
-- of a pause or false, tags and window.
local function read(rooms, name)
  return unpack(call('HMGET', rooms .. 'room:' .. name, 'settings', 'phase', 'paused', 'tags', 'window'))
end

-- A room, with the fields that a poll needs, or nil.
function room.load(cx, name)
  local settings, phase, paused, tags, window = read(cx.rooms, name)
  if not settings then return nil end
  local state = named(cx, name)
  room.set_settings(state, settings)
  state.phase, state.paused, state.was_paused = phase, paused or nil, paused
  state.tags, state.window = numbers(tags), {room.window_of(window)}
  return state
end

-- Reads the other fields of a room, before they are used or the room is changed.
function room.complete(state)
  if state.is_complete then return end
  local values = call('HMGET', state.key, unpack(OTHER_FIELDS))
  state.seed, state.commitment, state.digest, state.tickets = values[1], values[2], values[3], tonumber(values[4])
  state.next, state.virtual_time = tonumber(values[5]), tonumber(values[6])
  state.bucket, state.cut, state.closed_until, state.goodput = values[7], values[8], tonumber(values[9]), values[10]
  state.totals, state.idle_since, state.is_complete = numbers(values[11]), tonumber(values[12]), true
end

-- Writes the hash of a room that has changed.
function room.write(cx, state)
  if not state.changed then return end
  -- The fields that a poll reads come first, because Redis searches a small hash from its beginning.
  call('HSET', state.key, 'settings', state.settings, 'phase', state.phase, 'window', joined(state.window),
    'tags', joined(state.tags), 'seed', state.seed, 'commitment', state.commitment, 'digest', state.digest,
    'tickets', text(state.tickets), 'next', text(state.next), 'virtual_time', text(state.virtual_time),
    'bucket', state.bucket, 'cut', state.cut, 'closed_until', text(state.closed_until), 'goodput', state.goodput,
    'totals', joined(state.totals), 'idle_since', text(state.idle_since))
  if state.paused then
    call('HSET', state.key, 'paused', state.paused)
  elseif state.was_paused then
    call('HDEL', state.key, 'paused')
  end
  if not state.is_new then return end
  call('ZADD', cx.rooms .. 'room-names', 0, state.name)
  if not cx.rooms_used then call('HSET', cx.partition_key, 'rooms_used', '1') end
end

-- Removes the hash of an empty room.
function room.forget(cx, state)
  call('DEL', state.key)
  call('ZREM', cx.rooms .. 'room-names', state.name)
  call('ZREM', cx.rooms .. 'room-deadlines', state.name)
end
