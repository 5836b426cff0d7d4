-- Counting again. What many suspects need is read once; nil says that it is too much to count in one step.

-- How many of an entry's kind there are, by a function that names the kind.
local function tally(entries, step, kind_of)
  local counts = {}
  for index = 1, #entries, step do
    local kind = kind_of(entries[index], entries[index + 1])
    if kind then counts[kind] = (counts[kind] or 0) + 1 end
  end
  return counts
end

-- Jobs in flight by group, and by type.
local leased
local function leased_by(what, name)
  local key = prefix .. 'in-flight'
  if not leased then
    if not afford(call('HLEN', key)) then return nil end
    local entries = call('HGETALL', key)
    leased = {
      group = tally(entries, 2, function(field) return match(field, '^([^:]+):') end),
      type = tally(entries, 2, function(_, held) return match(held, '^%a:%d:([^:]+)', 33) end),
    }
  end
  return leased[what][name] or 0
end

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

-- The members of the fair order of a place, by group.
local orders = {}
local function members_of(place, group_name)
  local order = orders[place]
  if not order then
    local key = type_state(sub(place, 3))[byte(place, 1) - 48].key
    if not afford(call('ZCARD', key)) then return nil end
    order = {}
    for _, member in ipairs(call('ZRANGE', key, 0, -1)) do
      local name = sub(member, 18)
      order[name] = order[name] or {}
      table.insert(order[name], member)
    end
    orders[place] = order
  end
  return order[group_name] or {}
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
        local name, id = match(member, '^%d:[^:]+:([^:]+):(.+)$')
        ready[name] = ready[name] or {}
        table.insert(ready[name], id)
      end
    end
  end
  return ready[group_name] or {}
end

-- How many of these jobs have not ended. One that was cancelled where it stands has.
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

-- Jobs of a group that stand in lists and have not ended.
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
    for index, member in ipairs(ids) do ids[index] = match(member, '^%d:[^:]+:[^:]+:(.+)$') or member end
    counted = counted + count_unended(rows, ids)
  end
  return counted
end

-- Jobs of a bulk action that have not ended.
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

-- Jobs in the chunks of a list.
local function count_chunks(key)
  local counted, length = 0, call('LLEN', key)
  if not afford(length) then return nil end
  for at = 0, length - 1, 100 do
    for _, chunk in ipairs(call('LRANGE', key, at, at + 99)) do
      if not afford(0, 0, #chunk) then return nil end
      counted = counted + match(chunk, '^%d+:(%d+)')
    end
  end
  return counted
end
