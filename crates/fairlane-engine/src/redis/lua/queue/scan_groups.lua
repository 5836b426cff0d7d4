-- Pages about groups, fair orders, types and their counts.

-- Groups by their names, as many as fit into one step: name, `?` if its row contradicts itself,
-- jobs in flight, and a line per lane with its letter and place. The orders are not checked. The
-- cursor counts groups.
function queue.page_groups(cx)
  local reply = {''}
  kernel.read_fields(cx, {'indexed'})
  for index = 7, #cx.arguments do
    if cx.spent >= AUDIT_STEP_ENTRIES then
      reply[1] = text(index - 7)
      break
    end
    local group, lines, parked, letter = queue.group_state(cx, cx.arguments[index]), {}, 0, ''
    for _, place in ipairs(queue.places_of(group)) do
      local _, lane = queue.group_state(cx, group.name, place)
      if queue.lane_fault(cx, group, lane, nil, queue.lane_lengths(cx, group, place)) then letter = '?' end
      if lane.standing == 'S' then parked = parked + 1 end
      lines[#lines + 1] = lane.standing .. place
    end
    local has_jobs, listed = queue.activity_of(cx, group)
    local stored, expected = queue.magnitudes_of(cx, group)
    local has_settings, is_listed = queue.settings_listing(cx, group)
    if parked ~= group.seat_parked or has_jobs ~= listed or stored ~= expected
      or has_settings ~= is_listed then
      letter = '?'
    end
    queue.afford(cx, 7 + 5 * #lines)
    for _, item in ipairs({group.name, letter, text(group.in_flight), table.concat(lines, '\n')}) do
      reply[#reply + 1] = item
    end
  end
  return reply
end

-- The standing of a group's lane as a letter, or false if the group does not have it.
local function standing_of(cx, group_name, place)
  local lane = call('HGET', cx.prefix .. 'group:' .. group_name .. ':meta', 'lane:' .. place)
  return lane and sub(lane, 1, 1)
end

-- Groups in the fair order of a place, with the letter of their lane there.
function queue.page_order(cx, place, cursor, count)
  local order = queue.type_state(cx, sub(place, 3))[byte(place, 1) - 48]
  local next_cursor, entries = unpack(call('ZSCAN', order.key, cursor, 'COUNT', count))
  local reply = {queue.next_cursor_text(next_cursor)}
  for index = 1, #entries, 2 do
    local name = sub(entries[index], 18)
    reply[#reply + 1], reply[#reply + 2] = name, standing_of(cx, name, place) or '?'
  end
  return reply
end

-- Groups in `parked` with a lane that is not parked.
function queue.page_parked(cx, _, cursor, count)
  local next_cursor, entries = unpack(call('ZSCAN', cx.prefix .. 'parked', cursor, 'COUNT', count))
  local reply = {queue.next_cursor_text(next_cursor)}
  for index = 1, #entries, 2 do
    local place, name = match(entries[index], '^(%d:[^:]+):(.+)$')
    if standing_of(cx, name, place) ~= 'R' then reply[#reply + 1] = name end
  end
  return reply
end

-- Groups in the index of large groups with another backlog than it says.
function queue.page_large(cx, _, cursor, count)
  local next_cursor, entries = unpack(call('ZSCAN', cx.prefix .. 'large-groups', cursor, 'COUNT', count))
  local reply = {queue.next_cursor_text(next_cursor)}
  for index = 1, #entries, 2 do
    local stored = tonumber(entries[index + 1])
    if queue.magnitude(stored, queue.stored_backlog(cx, entries[index])) ~= stored then
      reply[#reply + 1] = entries[index]
    end
  end
  return reply
end

-- Types: name, `?` if anything but its jobs in flight has to be checked, jobs in flight.
function queue.page_types(cx)
  local reply = {''}
  for _, name in ipairs(call('SMEMBERS', cx.prefix .. 'types')) do
    local state, letter = queue.type_state(cx, name), ''
    for level = 0, 2 do
      local order = state[level]
      if order.virtual_time >= VIRTUAL_TIME_HIGH or call('ZCARD', order.key) ~= order.active then
        letter = '?'
      end
    end
    if state.virtual_time >= VIRTUAL_TIME_HIGH then letter = '?' end
    for _, item in ipairs({name, letter, text(state.in_flight)}) do reply[#reply + 1] = item end
  end
  return reply
end

-- The sum of the backlogs of some active groups.
function queue.page_backlogs(cx, _, cursor, count)
  local names, sum = call('ZRANGE', cx.prefix .. 'active-groups', cursor, text(cursor + count - 1)), 0
  for _, name in ipairs(names) do sum = sum + queue.stored_backlog(cx, name) end
  return {#names < count and '' or text(cursor + count), text(sum)}
end

-- The sum of the stored bytes of groups, by their names.
function queue.page_stored_bytes(cx)
  local sum = 0
  for index = 7, #cx.arguments do sum = sum + queue.stored_bytes_of(cx, cx.arguments[index]) end
  return {'', text(sum)}
end

-- The number of jobs in some chunks of a list.
function queue.page_chunks(cx, name, cursor, count)
  local chunks, sum = call('LRANGE', cx.prefix .. name, cursor, text(cursor + count - 1)), 0
  for _, chunk in ipairs(chunks) do sum = sum + queue.chunk_jobs(chunk) end
  return {#chunks < count and '' or text(cursor + count), text(sum)}
end
