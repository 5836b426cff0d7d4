-- Pages of the store, for the scan that finds suspects. The contents of a page are consistent.

-- A reply of names, each with a letter, the number of a bulk action and bytes. A job in another
-- place than in its row is a contradiction.
local function job_lines(cx, next_cursor, names, places)
  local reply = {next_cursor}
  for index, name in ipairs(names) do
    local letter, number, place, bytes = queue.locate_job(cx, name)
    if places and places[index] ~= place then letter = '?' end
    reply[#reply + 1] = name
    reply[#reply + 1] = letter
    reply[#reply + 1] = number
    reply[#reply + 1] = text(bytes or 0)
  end
  return reply
end

-- The next cursor of a scan; '' at the end.
function queue.next_cursor_text(cursor)
  return cursor == '0' and '' or cursor
end

-- Keys of groups and leases, without their prefix.
function queue.page_keys(cx, _, cursor, count)
  local next_cursor, keys = unpack(call('SCAN', cursor, 'COUNT', count))
  local reply = {queue.next_cursor_text(next_cursor)}
  for _, key in ipairs(keys) do
    local name = sub(key, 1, #cx.prefix) == cx.prefix and sub(key, #cx.prefix + 1) or ''
    if match(name, '^group:') or match(name, '^lease:') then reply[#reply + 1] = name end
  end
  return reply
end

-- A run without a row is listed by its job's name.
function queue.page_rows(cx, group_name, cursor, count)
  local rows = queue.rows_key(cx, group_name)
  local next_cursor, entries = unpack(call('HSCAN', rows, cursor, 'COUNT', count))
  local names = {}
  for index = 1, #entries, 2 do
    local field = entries[index]
    local id = match(field, '^:(.+)$')
    if not id or call('HEXISTS', rows, id) == 0 then
      names[#names + 1] = group_name .. ':' .. (id or field)
    end
  end
  return job_lines(cx, queue.next_cursor_text(next_cursor), names)
end

-- Leased jobs; the type takes the position of the bulk action's number.
function queue.page_in_flight(cx, _, cursor, count)
  local next_cursor, entries = unpack(call('HSCAN', cx.prefix .. 'in-flight', cursor, 'COUNT', count))
  local names = {}
  for index = 1, #entries, 2 do
    if match(entries[index], ':') then names[#names + 1] = entries[index] end
  end
  local reply = job_lines(cx, queue.next_cursor_text(next_cursor), names)
  for index, name in ipairs(names) do
    reply[index * 4] = match(queue.rows_of(cx, name).place or '', '^%d:(.+)$') or ''
  end
  return reply
end

-- Members are names of jobs, with or without a place before them.
function queue.page_sorted(cx, name, cursor, count)
  local members = call('ZRANGE', cx.prefix .. name, cursor, text(cursor + count - 1))
  local ends = #members < count
  for index, member in ipairs(members) do
    members[index] = match(member, '^%d:[^:]+:([^:]+:[^:]+)') or member
  end
  return job_lines(cx, ends and '' or text(cursor + count), members)
end

-- From the tail, where jobs are added, so that a job that stays is seen at least once. The list of
-- a lane contains ids.
function queue.page_list(cx, name, cursor, count)
  local group_name, lane = match(name, '^group:([^:]+):%a+:(.+)$')
  local members = call('LRANGE', cx.prefix .. name, text(-cursor - count), text(-cursor - 1))
  local ends, places = #members < count, {}
  for index, member in ipairs(members) do
    local place, job = match(member, '^(%d:[^:]+):([^:]+:[^:]+)')
    places[index], members[index] = lane or place, group_name and group_name .. ':' .. member or job
  end
  return job_lines(cx, ends and '' or text(cursor + count), members, places)
end
