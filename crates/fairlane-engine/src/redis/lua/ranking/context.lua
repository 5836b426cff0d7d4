-- The state of a call on boards.

-- Begins a call. With the default prefix on one server, `rankings` is empty: the scores of the board
-- `popular` are then in `ranking:popular`.
function ranking.begin(keys, arguments)
  local cx = kernel.begin(keys, arguments)
  cx.rankings = cx.prefix == 'DEFAULT_PREFIX' and '' or cx.prefix
  cx.now_ms = floor(cx.now / 1000)
  return cx
end

-- Checks the partition before the first write, and reads whether it ever had a board.
function ranking.read_shared(cx)
  local version, used = unpack(call('HMGET', cx.partition_key, 'version', 'boards_used'))
  kernel.check_version(version)
  cx.boards_used = used
end
