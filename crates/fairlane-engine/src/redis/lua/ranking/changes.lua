-- Commands that change scores: the live generation and, if one is under way, a rebuild.

-- Counts an outcome in the totals.
local function count(board, outcome, kind)
  local totals, taken = board.totals, kind == 'cancel' and 2 or 1
  if outcome == 'Repeated' then
    totals[3] = totals[3] + 1
  elseif outcome == 'TooOld' then
    totals[5] = totals[5] + 1
  elseif ranking.is_taken(outcome) then
    totals[taken] = totals[taken] + 1
    if outcome == 'Late' then totals[4] = totals[4] + 1 end
  else
    totals[6] = totals[6] + 1
  end
end

-- Applies items of one kind to a board and returns the reply.
function ranking.change(cx, name, kind, items, with_ranks)
  ranking.read_shared(cx)
  local board, outcomes, ranks = ranking.load(cx, name), {}, {}
  if not board then return 'UnknownBoard' end
  if items[1] and board.takes_events == (kind == 'set') then return 'WrongRule' end
  for index, item in ipairs(items) do
    local outcome = ranking.apply(cx, board, board.live, kind, item)
    if board.staged and ranking.is_taken(outcome) then ranking.apply(cx, board, board.staged, kind, item) end
    count(board, outcome, kind)
    outcomes[index] = outcome
  end
  ranking.write(cx, board)
  if with_ranks then
    for _, item in ipairs(items) do
      ranks[#ranks + 1] = ranking.entry_of(board, board.base, item.member)
    end
  end
  return {Recorded = {outcomes = outcomes, ranks = ranks}}
end
