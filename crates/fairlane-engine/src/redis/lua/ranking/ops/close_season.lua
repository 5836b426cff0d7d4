#!lua flags=allow-oom
-- close_season: ends the current season and begins the next one.
-- Key: the partition.

-- Seals the current season. Its sorted set keeps its members under another name.
local function seal(cx, board)
  local number = board.season
  if call('EXISTS', board.base) == 1 then call('RENAME', board.base, board.base .. ':season:' .. text(number)) end
  call('UNLINK', board.base .. ':versions')
  call('HSET', board.key, 'season:' .. text(number), text(cx.now) .. ':0')
  local forgotten = number - BOARD_SEASONS_KEPT
  if forgotten > 0 then
    call('UNLINK', board.base .. ':season:' .. text(forgotten))
    call('HDEL', board.key, 'season:' .. text(forgotten))
  end
  if board.staged then
    ranking.unlink(board.staged.base)
    ranking.end_rebuild(board)
  end
  board.season, board.since = number + 1, cx.now_ms
  ranking.write(cx, board)
end

function ranking.ops.close_season(cx, command)
  ranking.read_shared(cx)
  local board, number = ranking.load(cx, command.board), command.season
  if not board then return 'UnknownBoard' end
  if number > board.season then return {NotBegun = {season = board.season}} end
  local is_current = number == board.season
  if is_current then seal(cx, board) end
  local field = 'season:' .. text(number)
  local season = call('HGET', board.key, field)
  if not season then return 'Forgotten' end
  local closed_at, announced = match(season, '^(%d+):(%d)$')
  if command.announced and not is_current and announced == '0' then call('HSET', board.key, field, closed_at .. ':1') end
  local key = board.base .. ':' .. field
  return {Closed = {
    closed_at = tonumber(closed_at), members = call('ZCARD', key),
    entries = ranking.page(board, key, 0, command.members_max), decimals = board.decimals, announced = announced == '1',
  }}
end
