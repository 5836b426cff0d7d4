-- Pages about groups, fair orders, types and their counts.

-- Groups by their names, as many as fit into one step: name, `?` if its row contradicts itself,
-- jobs in flight, and a line per lane with its letter and place. The orders are not checked. The
-- cursor counts groups.
function pages.groups()
  local reply = {''}
  for index = 7, #ARGV do
    if spent >= AUDIT_STEP_ENTRIES then
      reply[1] = text(index - 7)
      break
    end
    local group, lines, parked, letter = group_state(ARGV[index]), {}, 0, ''
    for _, place in ipairs(places_of(group)) do
      local _, lane = group_state(group.name, place)
      if lane_fault(group, lane, nil, lane_lengths(group, place)) then letter = '?' end
      if lane.standing == 'S' then parked = parked + 1 end
      lines[#lines + 1] = lane.standing .. place
    end
    local has_jobs, listed = activity_of(group)
    if parked ~= group.seat_parked or has_jobs ~= listed then letter = '?' end
    afford(5 + 5 * #lines)
    for _, item in ipairs({group.name, letter, text(group.in_flight), table.concat(lines, '\n')}) do reply[#reply + 1] = item end
  end
  return reply
end

-- The standing of a group's lane as a letter, or false if the group does not have it.
local function standing_of(group_name, place)
  local lane = call('HGET', prefix .. 'group:' .. group_name .. ':meta', 'lane:' .. place)
  return lane and sub(lane, 1, 1)
end

-- Groups in the fair order of a place, with the letter of their lane there.
function pages.order(place, cursor, count)
  local next_cursor, entries = unpack(call('ZSCAN', type_state(sub(place, 3))[byte(place, 1) - 48].key, cursor, 'COUNT', count))
  local reply = {after(next_cursor)}
  for index = 1, #entries, 2 do
    local name = sub(entries[index], 18)
    reply[#reply + 1], reply[#reply + 2] = name, standing_of(name, place) or '?'
  end
  return reply
end

-- Groups in `parked` with a lane that is not parked.
function pages.parked(_, cursor, count)
  local next_cursor, entries = unpack(call('ZSCAN', prefix .. 'parked', cursor, 'COUNT', count))
  local reply = {after(next_cursor)}
  for index = 1, #entries, 2 do
    local place, name = match(entries[index], '^(%d:[^:]+):(.+)$')
    if standing_of(name, place) ~= 'R' then reply[#reply + 1] = name end
  end
  return reply
end

-- Types: name, `?` if anything but its jobs in flight has to be checked, jobs in flight.
function pages.types()
  local reply = {''}
  for _, name in ipairs(call('SMEMBERS', prefix .. 'types')) do
    local state, letter = type_state(name), ''
    for level = 0, 2 do
      local order = state[level]
      if order.virtual_time >= VIRTUAL_TIME_HIGH or call('ZCARD', order.key) ~= order.active then letter = '?' end
    end
    if state.virtual_time >= VIRTUAL_TIME_HIGH then letter = '?' end
    for _, item in ipairs({name, letter, text(state.in_flight)}) do reply[#reply + 1] = item end
  end
  return reply
end

-- The sum of the backlogs of some active groups.
function pages.backlogs(_, cursor, count)
  local names, sum = call('ZRANGE', prefix .. 'active-groups', cursor, text(cursor + count - 1)), 0
  for _, name in ipairs(names) do sum = sum + stored_backlog(name) end
  return {#names < count and '' or text(cursor + count), text(sum)}
end

-- The sum of the stored bytes of groups, by their names.
function pages.stored_bytes()
  local sum = 0
  for index = 7, #ARGV do sum = sum + stored_bytes_of(ARGV[index]) end
  return {'', text(sum)}
end

-- The number of jobs in some chunks of a list.
function pages.chunks(name, cursor, count)
  local chunks, sum = call('LRANGE', prefix .. name, cursor, text(cursor + count - 1)), 0
  for _, chunk in ipairs(chunks) do sum = sum + chunk_jobs(chunk) end
  return {#chunks < count and '' or text(cursor + count), text(sum)}
end
