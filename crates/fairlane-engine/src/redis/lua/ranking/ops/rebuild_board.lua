#!lua
-- rebuild_board: counts a board again from a source, and switches to the result at once.
-- Key: the partition.

-- Gives the keys of the rebuild the names of the live ones, which are removed.
local function switch(board)
  local from, to = board.staged.base, board.base
  local names = {'', ':events', ':due', ':versions'}
  for _, slot in ipairs(call('ZRANGE', from .. ':due', 0, -1)) do names[#names + 1] = ':' .. slot end
  ranking.unlink(to)
  for _, name in ipairs(names) do
    if call('EXISTS', from .. name) == 1 then call('RENAME', from .. name, to .. name) end
  end
end

-- Adds rows of the source.
local function add(cx, board, kind, from, items)
  local staged = board.staged
  if items[1] and board.takes_events == (kind == 'set') then return 'WrongRule' end
  if from ~= staged.rows then
    return from + #items > staged.rows and {OutOfStep = {rows = staged.rows}} or {Ongoing = {rows = staged.rows}}
  end
  staged.origin = 'source'
  local refused
  for _, item in ipairs(items) do
    local outcome = ranking.apply(cx, board, staged, kind, item)
    if not ranking.is_taken(outcome) then
      refused = outcome
      break
    end
    staged.rows = staged.rows + 1
  end
  call('HSET', board.key, 'rows', text(staged.rows))
  return refused and {Refused = {rows = staged.rows, outcome = refused}} or {Ongoing = {rows = staged.rows}}
end

local function rebuild(cx, board, id, step)
  local staged = board.staged
  if not staged or staged.id ~= id then
    if step == 'Begin' then
      if staged then ranking.unlink(staged.base) end
      ranking.begin_rebuild(board, id)
      return {Ongoing = {rows = 0}}
    end
    if step.Finish and board.rebuilt == id then return {Finished = {members = call('ZCARD', board.base)}} end
    return 'UnknownRebuild'
  end
  if step == 'Begin' then return {Ongoing = {rows = staged.rows}} end
  if step == 'Abort' then
    ranking.unlink(staged.base)
    ranking.end_rebuild(board)
    return 'Aborted'
  end
  if step.Events then return add(cx, board, 'record', step.Events.from, step.Events.events) end
  if step.Scores then return add(cx, board, 'set', step.Scores.from, step.Scores.scores) end
  if step.Finish.rows ~= staged.rows then return {OutOfStep = {rows = staged.rows}} end
  switch(board)
  ranking.end_rebuild(board)
  call('HSET', board.key, 'rebuilt', id)
  return {Finished = {members = call('ZCARD', board.base)}}
end

function ranking.ops.rebuild_board(cx, command)
  ranking.read_shared(cx)
  local board = ranking.load(cx, command.board)
  if not board then return 'UnknownBoard' end
  local reply = rebuild(cx, board, command.rebuild, command.step)
  ranking.write(cx, board)
  return reply
end
