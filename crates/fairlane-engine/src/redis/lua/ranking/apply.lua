-- How events, cancellations and values change the sets of a generation.

local TAKEN = {Applied = true, Late = true, Repeated = true, Pending = true}
local COUNTED = '^(%d+):(%d+):(%-?%d+):(.*)$'

-- The value and the tie of a member after an edit, or nil if they stay.
local function edited(board, generation, member, edit, value, tie)
  if edit.delta then
    local sum = (value or 0) + edit.delta
    return sum, ranking.tie(board, sum, max(value and ranking.reached_s(board, tie) or 0, edit.at_s))
  end
  local new_tie = ranking.tie(board, edit.value, edit.at_s)
  local is_taken = not value
  if value and board.rule == 'latest' then
    is_taken = edit.version > tonumber(call('HGET', generation.base .. ':versions', member))
  elseif value then
    local is_larger = edit.value > value or (edit.value == value and new_tie > tie)
    local is_equal = edit.value == value and new_tie == tie
    is_taken = not is_equal and is_larger == board.descending
  end
  if is_taken then return edit.value, new_tie end
end

-- Edits the score of a member in every set, or in none. Returns a refusal or nil, and whether a set has
-- changed.
local function edit_sets(board, generation, member, sets, edit)
  for _, set in ipairs(sets) do
    local score, value, tie = call('ZSCORE', set.key, member), nil, nil
    if score then
      value, tie = ranking.split(board, tonumber(score))
    else
      set.count = call('ZCARD', set.key)
      if set.count >= BOARD_MEMBERS_MAX then return 'TooManyMembers' end
    end
    set.value, set.tie = edited(board, generation, member, edit, value, tie)
    if set.value and math.abs(set.value) > BOARD_SCORE_MAX then return 'OutOfRange' end
  end
  local has_changed = false
  for _, set in ipairs(sets) do
    if set.value then
      call('ZADD', set.key, ranking.joined(board, set.value, set.tie), member)
      if set.slot and set.count == 0 then
        call('ZADD', generation.base .. ':due', text(ranking.removed_at(board, set.kind, set.start)), set.slot)
        board.has_new_due = true
      end
      has_changed = true
    end
  end
  if has_changed and board.rule == 'latest' then
    call('HSET', generation.base .. ':versions', member, text(edit.version))
  end
  return nil, has_changed
end

-- Whether no further event can be remembered.
local function is_full(board, generation)
  return generation.origin ~= 'copied' and call('HLEN', generation.base .. ':events') >= board.events_max
end

local function remember(cx, board, generation, id, mark)
  call('HSET', generation.base .. ':events', id, mark)
  local start = ranking.window_start('ids', cx.now_ms)
  local slot = 'ids:' .. text(start)
  if call('RPUSH', generation.base .. ':' .. slot, id) == 1 then
    call('ZADD', generation.base .. ':due', text(ranking.removed_at(board, 'ids', start)), slot)
    board.has_new_due = true
  end
end

local function record(cx, board, generation, event)
  local known = call('HGET', generation.base .. ':events', event.id)
  local is_pending = known == 'pending'
  if known and not is_pending then return 'Repeated' end
  local is_old = not is_pending and ranking.is_too_old(cx, board, event.at_ms)
  if is_old and generation.origin ~= 'source' then return 'TooOld' end
  if board.rule == 'count' and event.delta ~= 1 then return 'OutOfRange' end
  if not is_pending and not is_old and is_full(board, generation) then return 'TooManyEvents' end
  local in_season = event.at_ms >= board.since
  local sets, is_late = ranking.targets(cx, board, generation, in_season, event.at_ms)
  local edit = {delta = is_pending and 0 or event.delta, at_s = floor(event.at_ms / 1000)}
  local refused = edit_sets(board, generation, event.member, sets, edit)
  if refused then return refused end
  if is_pending then
    call('HSET', generation.base .. ':events', event.id, 'cancelled')
  elseif not is_old then
    remember(cx, board, generation, event.id, text(in_season and board.season or 0) .. ':' .. text(event.at_ms)
      .. ':' .. text(event.delta) .. ':' .. event.member)
  end
  return (is_late or not in_season) and 'Late' or 'Applied'
end

local function cancel(cx, board, generation, event)
  local known = call('HGET', generation.base .. ':events', event.id)
  if not known then
    if ranking.is_too_old(cx, board, event.at_ms) then return 'TooOld' end
    if is_full(board, generation) then return 'TooManyEvents' end
    remember(cx, board, generation, event.id, 'pending')
    return 'Pending'
  end
  local season, at_ms, delta, member = match(known, COUNTED)
  if not season then return 'Repeated' end
  local in_season = tonumber(season) == board.season
  local sets, is_late = ranking.targets(cx, board, generation, in_season, tonumber(at_ms))
  for _, set in ipairs(sets) do
    local score = call('ZSCORE', set.key, member)
    if score then
      local value, tie = ranking.split(board, tonumber(score))
      value = value - tonumber(delta)
      call('ZADD', set.key, ranking.joined(board, value, ranking.tie(board, value, ranking.reached_s(board, tie))), member)
    end
  end
  call('HSET', generation.base .. ':events', event.id, 'cancelled')
  return (is_late or not in_season) and 'Late' or 'Applied'
end

local function set_score(cx, board, generation, score)
  local in_season = score.at_ms >= board.since
  local sets, is_late = ranking.targets(cx, board, generation, in_season, score.at_ms)
  local edit = {value = score.value, version = score.version, at_s = floor(score.at_ms / 1000)}
  local refused, has_changed = edit_sets(board, generation, score.member, sets, edit)
  if refused then return refused end
  if not sets[1] then return 'Late' end
  if not has_changed then return 'Repeated' end
  return (is_late or not in_season) and 'Late' or 'Applied'
end

-- Applies an item to one generation.
function ranking.apply(cx, board, generation, kind, item)
  if item.at_ms > cx.now_ms + BOARD_AHEAD_MS then return 'Ahead' end
  if kind == 'record' then return record(cx, board, generation, item) end
  if kind == 'cancel' then return cancel(cx, board, generation, item) end
  return set_score(cx, board, generation, item)
end

-- Whether the board accounts for an item with this outcome; otherwise it was refused.
function ranking.is_taken(outcome)
  return TAKEN[outcome]
end
