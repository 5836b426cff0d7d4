-- After the clock stepped back: lowers deadlines to the latest that could be set now.
local function lower_far_deadlines()
  local lease_end, park_end = text(now + LEASE_US_MAX), text(now + PARK_US_MAX)
  local key = prefix .. 'deadlines'
  for _, batch in ipairs(call('ZRANGE', key, '+inf', '(' .. lease_end, 'BYSCORE', 'REV', 'LIMIT', 0, CLAMPS_MAX)) do
    call('ZADD', key, lease_end, batch)
  end
  key = prefix .. 'parked'
  for _, member in ipairs(call('ZRANGE', key, '+inf', '(' .. park_end, 'BYSCORE', 'REV', 'LIMIT', 0, CLAMPS_MAX)) do
    call('ZADD', key, park_end, member)
    local place, name = match(member, '^(%d:[^:]+):(.+)$')
    local _, lane = group_state(name, place)
    lane.park = now + PARK_US_MAX
  end
end
