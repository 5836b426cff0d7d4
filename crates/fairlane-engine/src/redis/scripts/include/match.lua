-- Entries of one group or type among the leased jobs and in the fair orders.

-- Counts entries by kind; `kind_of` returns the kind of an entry.
local function tally(entries, step, kind_of)
  local counts = {}
  for index = 1, #entries, step do
    local kind = kind_of(entries[index], entries[index + 1])
    if kind then counts[kind] = (counts[kind] or 0) + 1 end
  end
  return counts
end

-- Fields or members that match a pattern, by a scan that the server filters: in Lua, one entry
-- would cost as much as four.
local function matching(command, key, length, pattern)
  if not afford(ceil(length / 4)) then return nil end
  local found, seen, cursor = {}, {}, '0'
  repeat
    local entries
    cursor, entries = unpack(call(command, key, cursor, 'MATCH', pattern, 'COUNT', 1000))
    for index = 1, #entries, 2 do
      local entry = entries[index]
      if not seen[entry] then
        seen[entry], found[#found + 1] = true, entry
      end
    end
  until cursor == '0'
  return found
end

-- A pattern that matches only this name.
local function literal(name)
  return (string.gsub(name, '[%*%?%[%]\\^%-]', '\\%0'))
end

-- Jobs in flight of a group.
local function leased_of_group(name)
  local key = prefix .. 'in-flight'
  local fields = matching('HSCAN', key, call('HLEN', key), literal(name) .. ':*')
  return fields and #fields
end

-- Jobs in flight of a type.
local leased
local function leased_of_type(name)
  local key = prefix .. 'in-flight'
  if not leased then
    if not afford(call('HLEN', key)) then return nil end
    leased = tally(call('HGETALL', key), 2, function(_, held) return match(held, '^%a:%d:([^:]+)', 33) end)
  end
  return leased[name] or 0
end

-- The members of a group in the fair order of a place.
local orders = {}
local function members_of(place, group_name)
  local name = place .. ':' .. group_name
  if orders[name] == nil then
    local key = type_state(sub(place, 3))[byte(place, 1) - 48].key
    local length = call('ZCARD', key)
    orders[name] = length == 0 and {} or matching('ZSCAN', key, length, string.rep('?', 16) .. ':' .. literal(group_name)) or false
  end
  return orders[name] or nil
end
