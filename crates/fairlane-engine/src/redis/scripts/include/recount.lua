-- Recounts. Data that many suspects need is read once; nil means that it is too much to
-- count in one step.

-- Waiting jobs of a group.
local waiting_by
local function waiting_of(group_name)
  local key = prefix .. 'non-ready-queue'
  if not waiting_by then
    if not afford(call('ZCARD', key)) then return nil end
    waiting_by = tally(call('ZRANGE', key, 0, -1), 1, function(member) return match(member, '^%d:[^:]+:([^:]+)') end)
  end
  return waiting_by[group_name] or 0
end

-- Admitted jobs by group, as lists of ids.
local ready
local function ready_of(group_name)
  if not ready then
    ready = {}
    for _, type_name in ipairs(call('SMEMBERS', prefix .. 'types')) do
      local key = prefix .. 'ready-queue:' .. type_name
      if not afford(call('LLEN', key)) then
        ready = nil
        return nil
      end
      for _, member in ipairs(call('LRANGE', key, 0, -1)) do
        local name, id = match(member, '^%d:[^:]+:([^:]+):([^:]+)')
        ready[name] = ready[name] or {}
        table.insert(ready[name], id)
      end
    end
  end
  return ready[group_name] or {}
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
local function listed_of(group_name)
  local part, counted = prefix .. 'group:' .. group_name, 0
  local rows, admitted = rows_key(group_name), ready_of(group_name)
  if not admitted then return nil end
  counted = count_unended(rows, admitted)
  local keys = {}
  for _, place in ipairs(places_for(group_name)) do
    keys[#keys + 1], keys[#keys + 2] = part .. ':returned:' .. place, part .. ':jobs:' .. place
  end
  local bulk_numbers = call('ZRANGE', part .. ':bulks', 0, -1, 'WITHSCORES')
  for index = 2, #bulk_numbers, 2 do keys[#keys + 1] = prefix .. 'bulk:' .. text(tonumber(bulk_numbers[index])) .. ':held' end
  for _, key in ipairs(keys) do
    if not afford(call('LLEN', key)) then return nil end
    local ids = call('LRANGE', key, 0, -1)
    for index, member in ipairs(ids) do ids[index] = match(member, '^%d:[^:]+:[^:]+:([^:]+)') or member end
    counted = counted + count_unended(rows, ids)
  end
  return counted
end

-- Unfinished jobs of a bulk action.
local function unended_of(group_name, number)
  local rows, ids = rows_key(group_name), {}
  if not afford(call('HLEN', rows)) then return nil end
  for _, field in ipairs(call('HKEYS', rows)) do
    if sub(field, 1, 1) ~= ':' then
      local row = call('HGET', rows, field)
      if not afford(0, 0, #row) then return nil end
      local _, of, cancelled = read_row(row)
      if of == number and not cancelled then ids[#ids + 1] = field end
    end
  end
  return count_unended(rows, ids)
end

-- The stored backlog of a group.
local function stored_backlog(name)
  return tonumber(match(call('HGET', prefix .. 'group:' .. name .. ':meta', 'counts') or '', '^-?%d+:(-?%d+)') or 0)
end

-- Jobs in one chunk.
local function chunk_jobs(chunk)
  return tonumber(match(chunk, '^%d+:(%d+)'))
end

-- Jobs in the chunks of a list.
local function count_chunks(key)
  local counted, length = 0, call('LLEN', key)
  if not afford(length) then return nil end
  for at = 0, length - 1, 100 do
    for _, chunk in ipairs(call('LRANGE', key, at, at + 99)) do
      if not afford(0, 0, #chunk) then return nil end
      counted = counted + chunk_jobs(chunk)
    end
  end
  return counted
end
