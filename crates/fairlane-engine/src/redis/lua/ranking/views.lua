-- What is shown of boards.

local KINDS = {hour = 'Hour', day = 'Day', week = 'Week'}
local ORDER = {hour = 1, day = 2, week = 3}
local RULES = {count = 'Count', sum = 'Sum', maximum = 'Maximum', latest = 'Latest'}

-- The number of members with a better value.
local function better(board, key, value)
  local score = ranking.joined(board, value, 0)
  if not board.descending then return call('ZCOUNT', key, '-inf', '(' .. score) end
  if board.unit > 1 then return call('ZCOUNT', key, '(' .. score, '+inf') end
  return call('ZCOUNT', key, text(value + 1), '+inf')
end

local function entry(board, member, value, tie, position, rank)
  return {
    member = member, score = value, reached_s = ranking.reached_s(board, tie), position = position + 1, rank = rank + 1,
  }
end

-- The position of a member from 0, or nil.
function ranking.position(board, key, member)
  return call(board.descending and 'ZREVRANK' or 'ZRANK', key, member) or nil
end

-- The entry of a member, or nil.
function ranking.entry_of(board, key, member)
  local position = ranking.position(board, key, member)
  if not position then return nil end
  local value, tie = ranking.split(board, tonumber(call('ZSCORE', key, member)))
  return entry(board, member, value, tie, position, better(board, key, value))
end

-- The entries from a position on.
function ranking.page(board, key, from, most)
  local entries, last, rank = {}, nil, nil
  if most == 0 then return entries end
  local range = board.descending and 'ZREVRANGE' or 'ZRANGE'
  local members = call(range, key, text(from), text(from + most - 1), 'WITHSCORES')
  for index = 1, #members, 2 do
    local value, tie = ranking.split(board, tonumber(members[index + 1]))
    local position = from + (index - 1) / 2
    if value ~= last then rank = last and position or better(board, key, value) end
    last = value
    entries[#entries + 1] = entry(board, members[index], value, tie, position, rank)
  end
  return entries
end

-- The key of the scores to read.
function ranking.standing_key(cx, board, standing)
  if standing == 'All' then return board.base end
  if standing.Season then return board.base .. ':season:' .. text(standing.Season.number) end
  local kind = string.lower(standing.Window.kind)
  local start = ranking.window_start(kind, standing.Window.at_ms or cx.now_ms)
  return board.base .. ':' .. kind .. ':' .. text(start)
end

function ranking.view_settings(board)
  local windows = {hour = false, day = false, week = false}
  for _, kind in ipairs(board.windows) do windows[kind] = true end
  return {
    rule = RULES[board.rule], order = board.descending and 'Descending' or 'Ascending', decimals = board.decimals,
    windows = windows, horizon_ms = board.horizon_ms, events_max = board.events_max,
  }
end

function ranking.view(board)
  local totals, staged = board.totals, board.staged
  return {
    board = board.name, settings = ranking.view_settings(board), season = board.season, since_ms = board.since,
    members = call('ZCARD', board.base), events = call('HLEN', board.base .. ':events'),
    totals = {
      recorded = totals[1], cancelled = totals[2], repeated = totals[3], late = totals[4], too_old = totals[5],
      refused = totals[6],
    },
    rebuild = staged and {id = staged.id, rows = staged.rows} or nil,
  }
end

local function precedes_window(left, right)
  if left.order ~= right.order then return left.order < right.order end
  return left.start < right.start
end

-- The windows, the shortest kind first, in the order of time.
function ranking.view_windows(cx, board)
  local windows, views = {}, {}
  for _, slot in ipairs(call('ZRANGE', board.base .. ':due', 0, -1)) do
    local kind, start = match(slot, '^(%l+):(%d+)$')
    if ORDER[kind] then windows[#windows + 1] = {kind = kind, order = ORDER[kind], start = tonumber(start), slot = slot} end
  end
  table.sort(windows, precedes_window)
  for index, window in ipairs(windows) do
    views[index] = {
      kind = KINDS[window.kind], start_s = window.start, members = call('ZCARD', board.base .. ':' .. window.slot),
      sealed = ranking.is_sealed(cx, window.kind, window.start),
    }
  end
  return views
end

-- The closed seasons that are kept.
function ranking.view_seasons(board)
  local views = {}
  for number = max(board.season - BOARD_SEASONS_KEPT, 1), board.season - 1 do
    local closed_at, announced = match(call('HGET', board.key, 'season:' .. text(number)), '^(%d+):(%d)$')
    views[#views + 1] = {
      number = number, members = call('ZCARD', board.base .. ':season:' .. text(number)),
      closed_at = tonumber(closed_at), announced = announced == '1',
    }
  end
  return views
end
