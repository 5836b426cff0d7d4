-- Scores: the value is the integer part of the sorted set's score, and the fraction orders equal
-- values by the second at which they were reached.

local SECONDS = 4294967296

-- The value and the tie of a score.
function ranking.split(board, score)
  if board.unit > 1 then return floor(score * board.unit + 0.5), 0 end
  local value = floor(score)
  return value, (score - value) * SECONDS
end

-- The score of a value and a tie, as text.
function ranking.joined(board, value, tie)
  return format('%.17g', value / board.unit + tie / SECONDS)
end

-- The tie of a value that was reached in this second.
function ranking.tie(board, value, reached_s)
  if reached_s == 0 or board.unit > 1 or value > BOARD_TIMED_SCORE_MAX or value < -BOARD_TIMED_SCORE_MAX then
    return 0
  end
  return board.descending and SECONDS - 1 - reached_s or reached_s
end

-- The second at which a value with this tie was reached; 0 if it is not kept.
function ranking.reached_s(board, tie)
  if tie == 0 then return 0 end
  return board.descending and SECONDS - 1 - tie or tie
end
