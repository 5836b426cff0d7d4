-- Where a job should be by its rows, and where it is. Reads are charged to a budget, so that a
-- step stays short.

-- Begins an audit: its budget, its findings, and what several suspects share.
function queue.begin_audit(cx)
  cx.too_large, cx.spent, cx.suspect_index = false, 0, 0
  cx.entries_left, cx.passed_left, cx.bytes_left = AUDIT_ENTRIES_MAX, AUDIT_PASSED_MAX, AUDIT_BYTES_MAX
  cx.findings, cx.known_places, cx.orders = {}, {}, {}
end

-- Charges the budget for counting, passing over and reading this much; false if it is exceeded.
function queue.afford(cx, entries, passed, bytes)
  passed, bytes = passed or 0, bytes or 0
  cx.entries_left, cx.passed_left, cx.bytes_left = cx.entries_left - entries, cx.passed_left - passed,
    cx.bytes_left - bytes
  cx.spent = cx.spent + entries + passed / 64 + bytes / 16384
  if cx.entries_left < 0 or cx.passed_left < 0 or cx.bytes_left < 0 then cx.too_large = true end
  return not cx.too_large
end

-- The state of a job by its rows.
function queue.rows_of(cx, name)
  local group_name, id = match(name, '^([^:]+):(.+)$')
  local row, run = unpack(call('HMGET', queue.rows_key(cx, group_name), id, ':' .. id))
  local job =
    {name = name, group = group_name, id = id, row = row, run = run, state = run and sub(run, 1, 1) or 'N'}
  if row then
    job.cost, job.number, job.cancelled = queue.read_row(row)
    job.place = match(row, '^X?..........(%d:[^:]+)')
    job.with_bulk = job.number ~= '' and call('EXISTS', cx.prefix .. 'bulk:' .. job.number) == 1
  end
  return job
end

-- Whether an entry of `in-flight` names an existing batch with a deadline.
function queue.has_deadline(cx, held)
  local batch = sub(held, 17, 32)
  return call('EXISTS', cx.prefix .. 'lease:' .. batch) == 1
    and call('ZSCORE', cx.prefix .. 'deadlines', batch)
end

-- A letter for where a job should be: L in a list, X there but cancelled, H leased, W
-- waiting, D dead, B among the ended jobs of its bulk action, C among the other ended jobs, ?
-- for a contradiction. Then the number of its bulk action, its place, and the bytes of its
-- payload and note.
function queue.locate_job(cx, name)
  local job, held = queue.rows_of(cx, name), call('HGET', cx.prefix .. 'in-flight', name)
  if not job.row then return '?', '' end
  local member = queue.placed_name(job.place, name, job.number)
  local due = call('ZSCORE', cx.prefix .. 'non-ready-queue', member)
  local dead, letter = call('ZSCORE', cx.prefix .. 'failed', name), '?'
  if job.cancelled or job.state ~= 'N' then
    local ended = job.with_bulk and 'B' or job.state ~= 'F' and 'C' or '?'
    letter = job.cancelled and (job.state == 'X' and 'X' or '?') or dead and job.state == 'F' and 'D' or ended
    if held or due or dead and letter ~= 'D' then letter = '?' end
  elseif not dead and not (held and due) then
    local unindexed = due and job.with_bulk
      and not call('ZSCORE', cx.prefix .. 'bulk:' .. job.number .. ':waiting', member)
    letter = held and (queue.has_deadline(cx, held) and 'H' or '?') or unindexed and '?' or due and 'W' or 'L'
  end
  return letter, job.number, job.place, queue.job_bytes(job.row, job.run)
end

-- Every place at which a group can have jobs.
function queue.places_for(cx, group_name)
  local places = cx.known_places[group_name]
  if places then return places end
  local seen = {}
  places = queue.places_of(queue.group_state(cx, group_name))
  for _, place in ipairs(places) do seen[place] = true end
  for _, type_name in ipairs(call('SMEMBERS', cx.prefix .. 'types')) do
    for level = 0, 2 do
      local place = level .. ':' .. type_name
      if not seen[place] then places[#places + 1] = place end
    end
  end
  table.sort(places, precedes)
  cx.known_places[group_name] = places
  return places
end

-- The places from which a job could run, in the order in which one is kept if there are several.
function queue.spots_of(cx, job)
  local spots, name, part = {}, job.name, cx.prefix .. 'group:' .. job.group
  local function add(word, key, member, place)
    spots[#spots + 1] = {word = word, key = key, member = member, place = place}
  end
  local function add_from_list(word, key, member, place)
    local length = call('LLEN', key)
    if length == 0 or not queue.afford(cx, 0, length) then return end
    for _ = 1, #call('LPOS', key, member, 'COUNT', 0) do add(word, key, member, place) end
  end
  if call('HEXISTS', cx.prefix .. 'in-flight', name) == 1 then
    add('in flight', cx.prefix .. 'in-flight', name)
  end
  -- Without a row the bulk action is unknown: it may be any of the group's.
  local places, numbers = queue.places_for(cx, job.group), {job.number or ''}
  local listed = job.row and {} or call('ZRANGE', part .. ':bulks', 0, -1, 'WITHSCORES')
  for index = 2, #listed, 2 do numbers[#numbers + 1] = text(tonumber(listed[index])) end
  if not queue.afford(cx, 0, #numbers * #places) then return spots end
  for _, number in ipairs(numbers) do
    for _, place in ipairs(places) do
      local key, member = cx.prefix .. 'non-ready-queue', queue.placed_name(place, name, number)
      if call('ZSCORE', key, member) then add('waiting', key, member, place) end
    end
  end
  for _, number in ipairs(numbers) do
    for _, place in ipairs(places) do
      add_from_list('ready', cx.prefix .. 'ready-queue:' .. sub(place, 3),
        queue.placed_name(place, name, number), place)
    end
  end
  for _, number in ipairs(numbers) do
    for _, place in ipairs(number ~= '' and places or {}) do
      add_from_list('held', cx.prefix .. 'bulk:' .. number .. ':held', queue.placed_name(place, name, number),
        place)
    end
  end
  for _, place in ipairs(places) do add_from_list('lane', part .. ':returned:' .. place, job.id, place) end
  for _, place in ipairs(places) do add_from_list('lane', part .. ':jobs:' .. place, job.id, place) end
  return spots
end

-- Whether a chunk of this list has the member; nil if that is too much to read.
local function in_chunks(cx, key, member)
  local wanted, length = '\n' .. member .. '\n', call('LLEN', key)
  for at = 1, length, 100 do
    for _, chunk in ipairs(call('LRANGE', key, -at - 99, -at)) do
      if not queue.afford(cx, 0, 0, #chunk) then return nil end
      if string.find(chunk .. '\n', wanted, 1, true) then return true end
    end
  end
  return false
end

-- Whether an ended job will be removed eventually; nil if that is too much to read.
function queue.is_filed(cx, job)
  if job.state == 'F' and call('ZSCORE', cx.prefix .. 'failed', job.name) then return true end
  if job.with_bulk then return in_chunks(cx, cx.prefix .. 'bulk:' .. job.number .. ':ended', job.id) end
  if job.state == 'F' then return false end
  return in_chunks(cx, cx.prefix .. 'completed', job.name)
end
