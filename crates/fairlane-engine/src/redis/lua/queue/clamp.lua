-- Lowers some scores that are higher than this one; returns their members.
function queue.lower_scores(key, highest)
  local above = call('ZRANGE', key, '+inf', '(' .. highest, 'BYSCORE', 'REV', 'LIMIT', 0, CLAMPS_MAX)
  for _, member in ipairs(above) do call('ZADD', key, highest, member) end
  return above
end

-- After the clock stepped back: lowers deadlines to the latest that could be set now.
function queue.lower_far_deadlines(cx)
  local lease_end, park_end = text(cx.now + LEASE_US_MAX), text(cx.now + PARK_US_MAX)
  queue.lower_scores(cx.prefix .. 'deadlines', lease_end)
  for _, member in ipairs(queue.lower_scores(cx.prefix .. 'parked', park_end)) do
    local place, name = match(member, '^(%d:[^:]+):(.+)$')
    local _, lane = queue.group_state(cx, name, place)
    lane.park = cx.now + PARK_US_MAX
  end
end
