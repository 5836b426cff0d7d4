-- Windows of time: an event belongs to the hour, the day and the week of its own time.

local LENGTHS = {hour = 3600, day = 86400, week = 604800, ids = 3600}
local KEPT = {hour = BOARD_HOURS_KEPT, day = BOARD_DAYS_KEPT, week = BOARD_WEEKS_KEPT}
-- The epoch was a Thursday, three days after the beginning of its week.
local WEEK_OFFSET = 259200

-- The second at which the window of this time begins.
function ranking.window_start(kind, at_ms)
  local at = floor(at_ms / 1000)
  return at - (kind == 'week' and at + WEEK_OFFSET or at) % LENGTHS[kind]
end

-- Whether a window takes no further events.
function ranking.is_sealed(cx, kind, start)
  return cx.now >= (start + LENGTHS[kind]) * 1000000 + BOARD_SEAL_US
end

-- When a window or the ids of an hour are removed.
function ranking.removed_at(board, kind, start)
  local length = LENGTHS[kind]
  local kept_us = kind == 'ids' and (board.horizon_ms + BOARD_AHEAD_MS) * 1000 or KEPT[kind] * length * 1000000
  return (start + length) * 1000000 + kept_us
end

-- Whether an event of this time is older than the horizon.
function ranking.is_too_old(cx, board, at_ms)
  return at_ms + board.horizon_ms < cx.now_ms
end

-- The sets that take an event of this time, and whether a window does not any more. A rebuild counts
-- sealed windows again.
function ranking.targets(cx, board, generation, in_season, at_ms)
  local sets, is_late = {}, false
  if in_season then sets[1] = {key = generation.base} end
  for _, kind in ipairs(board.windows) do
    local start = ranking.window_start(kind, at_ms)
    local is_open
    if generation.origin == 'live' then
      is_open = not ranking.is_sealed(cx, kind, start)
    else
      is_open = cx.now < ranking.removed_at(board, kind, start)
    end
    if is_open then
      local slot = kind .. ':' .. text(start)
      sets[#sets + 1] = {key = generation.base .. ':' .. slot, slot = slot, kind = kind, start = start}
    else
      is_late = true
    end
  end
  return sets, is_late
end
