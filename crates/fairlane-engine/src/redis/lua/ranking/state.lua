-- One board: the hash `ranking-board:<board>` with its settings and counts, and the keys that begin
-- with `ranking:<board>`. `ranking:<board>` has the scores of the current season,
-- `ranking:<board>:<window>:<start>` those of a window, and `ranking:<board>:season:<number>` those of
-- a closed season. `:events` has what is remembered of each event, `:ids:<hour>` the ids that arrived
-- in an hour, `:due` when windows and ids are removed, and `:versions` the version of each member. A
-- rebuild has the same keys behind `ranking:<board>:rebuild`.

local FIELDS = {'settings', 'season', 'since', 'totals', 'rebuild', 'rows', 'rebuilt'}
local SETTINGS = '^(%l+):(%l+):(%d):([%l,]*):(%d+):(%d+)$'

-- Takes over the settings in their text form.
function ranking.set_settings(board, settings)
  local rule, order, decimals, windows, horizon_ms, events_max = match(settings, SETTINGS)
  board.settings, board.rule, board.descending = settings, rule, order == 'descending'
  board.decimals, board.unit = tonumber(decimals), 10 ^ tonumber(decimals)
  board.takes_events = rule == 'count' or rule == 'sum'
  board.horizon_ms, board.events_max, board.windows = tonumber(horizon_ms), tonumber(events_max), {}
  for kind in string.gmatch(windows, '%l+') do board.windows[#board.windows + 1] = kind end
end

function ranking.settings_text(settings)
  local windows = {}
  for _, kind in ipairs({'hour', 'day', 'week'}) do
    if settings.windows[kind] then windows[#windows + 1] = kind end
  end
  return format('%s:%s:%d:%s:%s:%s', string.lower(settings.rule), string.lower(settings.order), settings.decimals,
    table.concat(windows, ','), text(settings.horizon_ms), text(settings.events_max))
end

local function named(cx, name)
  return {name = name, key = cx.rankings .. 'ranking-board:' .. name, base = cx.rankings .. 'ranking:' .. name}
end

local function stage(board, rebuild, rows)
  board.staged = {base = board.base .. ':rebuild', origin = 'copied', id = rebuild, rows = tonumber(rows)}
end

-- A board without members.
function ranking.new(cx, name)
  local board = named(cx, name)
  board.season, board.since, board.totals, board.is_new = 1, 0, {0, 0, 0, 0, 0, 0}, true
  board.live = {base = board.base, origin = 'live'}
  return board
end

-- A board, or nil.
function ranking.load(cx, name)
  local board = named(cx, name)
  local settings, season, since, totals, rebuild, rows, rebuilt = unpack(call('HMGET', board.key, unpack(FIELDS)))
  if not settings then return nil end
  ranking.set_settings(board, settings)
  board.season, board.since, board.totals = tonumber(season), tonumber(since), {}
  for count in string.gmatch(totals, '%d+') do board.totals[#board.totals + 1] = tonumber(count) end
  board.live = {base = board.base, origin = 'live'}
  if rebuild then stage(board, rebuild, rows) end
  board.rebuilt = rebuilt or nil
  return board
end

-- Begins a rebuild.
function ranking.begin_rebuild(board, id)
  stage(board, id, 0)
  call('HSET', board.key, 'rebuild', id, 'rows', '0')
  board.has_new_due = true
end

-- Ends a rebuild without its keys.
function ranking.end_rebuild(board)
  board.staged, board.has_new_due = nil, true
  call('HDEL', board.key, 'rebuild', 'rows')
end

-- Removes all keys of a generation. The server frees them in the background.
function ranking.unlink(base)
  local keys = {base, base .. ':events', base .. ':due', base .. ':versions'}
  for _, slot in ipairs(call('ZRANGE', base .. ':due', 0, -1)) do keys[#keys + 1] = base .. ':' .. slot end
  call('UNLINK', unpack(keys))
end

-- Enters when the board removes something next.
function ranking.update_deadline(cx, board)
  local deadline = call('ZRANGE', board.base .. ':due', 0, 0, 'WITHSCORES')[2]
  if board.staged then
    local other = call('ZRANGE', board.staged.base .. ':due', 0, 0, 'WITHSCORES')[2]
    if other and (not deadline or tonumber(other) < tonumber(deadline)) then deadline = other end
  end
  if deadline then
    call('ZADD', cx.rankings .. 'ranking-deadlines', deadline, board.name)
  else
    call('ZREM', cx.rankings .. 'ranking-deadlines', board.name)
  end
end

-- Writes the hash of a board.
function ranking.write(cx, board)
  local totals = {}
  for index, count in ipairs(board.totals) do totals[index] = text(count) end
  call('HSET', board.key, 'settings', board.settings, 'season', text(board.season), 'since', text(board.since),
    'totals', table.concat(totals, ','))
  if board.has_new_due then ranking.update_deadline(cx, board) end
  if not board.is_new then return end
  call('ZADD', cx.rankings .. 'ranking-names', 0, board.name)
  if not cx.boards_used then call('HSET', cx.partition_key, 'boards_used', '1') end
end
