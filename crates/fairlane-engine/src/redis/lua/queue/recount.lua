-- Recounts. Data that many suspects need is read once; nil means that it is too much to
-- count in one step.

-- Waiting jobs of a group.
function queue.waiting_of(cx, group_name)
  local key = cx.prefix .. 'non-ready-queue'
  if not cx.waiting_by then
    if not queue.afford(cx, call('ZCARD', key)) then return nil end
    cx.waiting_by = queue.tally(call('ZRANGE', key, 0, -1), 1, function(member)
      return match(member, '^%d:[^:]+:([^:]+)')
    end)
  end
  return cx.waiting_by[group_name] or 0
end

-- Admitted jobs by group, as lists of ids.
local function ready_of(cx, group_name)
  if not cx.ready then
    cx.ready = {}
    for _, type_name in ipairs(call('SMEMBERS', cx.prefix .. 'types')) do
      local key = cx.prefix .. 'ready-queue:' .. type_name
      if not queue.afford(cx, call('LLEN', key)) then
                return nil
      end
      for _, member in ipairs(call('LRANGE', key, 0, -1)) do
        local name, id = match(member, '^%d:[^:]+:([^:]+):([^:]+)')
        cx.ready[name] = cx.ready[name] or {}
        table.insert(cx.ready[name], id)
      end
    end
  end
  return cx.ready[group_name] or {}
end

-- The number of these jobs that have not ended. A job that was cancelled in a list has ended.
local function count_unended(rows, ids)
  local unended = 0
  for at = 1, #ids, 100 do
    local fields = {}
    for index = at, min(at + 99, #ids) do fields[#fields + 1] = ':' .. ids[index] end
    for _, run in ipairs(call('HMGET', rows, unpack(fields))) do
      if not run or sub(run, 1, 1) == 'N' then unended = unended + 1 end
    end
  end
  return unended
end

-- Unfinished jobs of a group that are in lists.
function queue.listed_of(cx, group_name)
  local part, counted = cx.prefix .. 'group:' .. group_name, 0
  local rows, admitted = queue.rows_key(cx, group_name), ready_of(cx, group_name)
  if not admitted then return nil end
  counted = count_unended(rows, admitted)
  local keys = {}
  for _, place in ipairs(queue.places_for(cx, group_name)) do
    keys[#keys + 1], keys[#keys + 2] = part .. ':returned:' .. place, part .. ':jobs:' .. place
  end
  local bulk_numbers = call('ZRANGE', part .. ':bulks', 0, -1, 'WITHSCORES')
  for index = 2, #bulk_numbers, 2 do
    keys[#keys + 1] = cx.prefix .. 'bulk:' .. text(tonumber(bulk_numbers[index])) .. ':held'
  end
  for _, key in ipairs(keys) do
    if not queue.afford(cx, call('LLEN', key)) then return nil end
    local ids = call('LRANGE', key, 0, -1)
    for index, member in ipairs(ids) do ids[index] = match(member, '^%d:[^:]+:[^:]+:([^:]+)') or member end
    counted = counted + count_unended(rows, ids)
  end
  return counted
end

-- Unfinished jobs of a bulk action.
function queue.unended_of(cx, group_name, number)
  local rows, ids = queue.rows_key(cx, group_name), {}
  if not queue.afford(cx, call('HLEN', rows)) then return nil end
  for _, field in ipairs(call('HKEYS', rows)) do
    if sub(field, 1, 1) ~= ':' then
      local row = call('HGET', rows, field)
      if not queue.afford(cx, 0, 0, #row) then return nil end
      local _, of, cancelled = queue.read_row(row)
      if of == number and not cancelled then ids[#ids + 1] = field end
    end
  end
  return count_unended(rows, ids)
end

-- The stored backlog of a group.
function queue.stored_backlog(cx, name)
  local counts = call('HGET', cx.prefix .. 'group:' .. name .. ':meta', 'counts')
  return tonumber(match(counts or '', '^-?%d+:(-?%d+)') or 0)
end

-- Jobs in one chunk.
function queue.chunk_jobs(chunk)
  return tonumber(match(chunk, '^%d+:(%d+)'))
end

-- Jobs in the chunks of a list.
function queue.count_chunks(cx, key)
  local counted, length = 0, call('LLEN', key)
  if not queue.afford(cx, length) then return nil end
  for at = 0, length - 1, 100 do
    for _, chunk in ipairs(call('LRANGE', key, at, at + 99)) do
      if not queue.afford(cx, 0, 0, #chunk) then return nil end
      counted = counted + queue.chunk_jobs(chunk)
    end
  end
  return counted
end
