#!lua flags=allow-oom
-- sweep_boards: removes windows and forgets events whose time has come.
-- Key: the partition.

-- Removes up to `most` windows and events of a generation whose time has come; returns how many.
local function remove_due(cx, base, most)
  local removed = 0
  while removed < most do
    local slot, at = unpack(call('ZRANGE', base .. ':due', 0, 0, 'WITHSCORES'))
    if not slot or tonumber(at) > cx.now then break end
    local key, is_gone = base .. ':' .. slot, true
    if sub(slot, 1, 4) == 'ids:' then
      local ids = call('LPOP', key, text(most - removed))
      call('HDEL', base .. ':events', unpack(ids))
      removed, is_gone = removed + #ids, call('EXISTS', key) == 0
    else
      call('UNLINK', key)
      removed = removed + 1
    end
    if is_gone then call('ZREM', base .. ':due', slot) end
  end
  return removed
end

function ranking.ops.sweep_boards(cx, command)
  ranking.read_shared(cx)
  -- No board was ever made, and the user may have no permission for their keys.
  if not cx.boards_used then return {boards = 0, removed = 0} end
  local deadlines, swept, removed = cx.rankings .. 'ranking-deadlines', 0, 0
  local name, at = unpack(call('ZRANGE', deadlines, 0, 0, 'WITHSCORES'))
  while swept < command.boards_max and removed < BOARD_STEP_EVENTS_MAX and name and tonumber(at) <= cx.now do
    local board = ranking.load(cx, name)
    removed = removed + remove_due(cx, board.base, BOARD_STEP_EVENTS_MAX - removed)
    if board.staged then
      removed = removed + remove_due(cx, board.staged.base, BOARD_STEP_EVENTS_MAX - removed)
    end
    ranking.update_deadline(cx, board)
    swept = swept + 1
    name, at = unpack(call('ZRANGE', deadlines, 0, 0, 'WITHSCORES'))
  end
  return {boards = swept, removed = removed, next_in_us = at and max(tonumber(at) - cx.now, 0)}
end
