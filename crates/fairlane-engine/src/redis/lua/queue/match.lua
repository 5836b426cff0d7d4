-- Entries of one group or type among the leased jobs and in the fair orders.

-- Counts entries by kind; `kind_of` returns the kind of an entry.
function queue.tally(entries, step, kind_of)
  local counts = {}
  for index = 1, #entries, step do
    local kind = kind_of(entries[index], entries[index + 1])
    if kind then counts[kind] = (counts[kind] or 0) + 1 end
  end
  return counts
end

-- Fields or members that match a pattern, by a scan that the server filters: in Lua, one entry
-- would cost as much as four.
local function matching_entries(cx, command, key, length, pattern)
  if not queue.afford(cx, ceil(length / 4)) then return nil end
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
function queue.literal_pattern(name)
  return (string.gsub(name, '[%*%?%[%]\\^%-]', '\\%0'))
end

-- Jobs in flight of a group.
function queue.leased_of_group(cx, name)
  local key = cx.prefix .. 'in-flight'
  local fields = matching_entries(cx, 'HSCAN', key, call('HLEN', key), queue.literal_pattern(name) .. ':*')
  return fields and #fields
end

-- Jobs in flight of a type.
function queue.leased_of_type(cx, name)
  local key = cx.prefix .. 'in-flight'
  if not cx.leased then
    if not queue.afford(cx, call('HLEN', key)) then return nil end
    cx.leased =
      queue.tally(call('HGETALL', key), 2, function(_, held) return match(held, '^%a:%d:([^:]+)', 33) end)
  end
  return cx.leased[name] or 0
end

-- The members of a group in the fair order of a place.
function queue.members_of(cx, place, group_name)
  local name = place .. ':' .. group_name
  if cx.orders[name] == nil then
    local key = queue.type_state(cx, sub(place, 3))[byte(place, 1) - 48].key
    local length, pattern = call('ZCARD', key),
      string.rep('?', 16) .. ':' .. queue.literal_pattern(group_name)
    cx.orders[name] = length == 0 and {} or matching_entries(cx, 'ZSCAN', key, length, pattern) or false
  end
  return cx.orders[name] or nil
end
