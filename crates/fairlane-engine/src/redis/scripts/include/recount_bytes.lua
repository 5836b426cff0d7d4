-- Recounts of stored bytes; nil means that it is too much to count in one step.

-- Bytes of the jobs and bulk actions of a group.
local function bytes_of(group_name)
  local rows, bytes = rows_key(group_name), 0
  if not afford(call('HLEN', rows)) then return nil end
  for _, id in ipairs(call('HKEYS', rows)) do
    if byte(id, 1) ~= 58 then
      local row, run = unpack(call('HMGET', rows, id, ':' .. id))
      if not afford(0, 0, #row + #(run or '')) then return nil end
      bytes = bytes + job_bytes(row, run)
    end
  end
  local numbers = call('ZRANGE', prefix .. 'group:' .. group_name .. ':bulks', 0, -1, 'WITHSCORES')
  if not afford(#numbers / 2) then return nil end
  for index = 2, #numbers, 2 do
    local key = prefix .. 'bulk:' .. text(tonumber(numbers[index]))
    bytes = bytes + call('HSTRLEN', key, 'payload') + call('HSTRLEN', key, 'summary')
  end
  return bytes
end

-- The stored count of a group's bytes, with the changes of this step.
local function stored_bytes_of(group_name)
  local group = groups[group_name]
  return group and group.stored_bytes or tonumber(call('HGET', prefix .. 'group:' .. group_name .. ':meta', 'stored_bytes') or 0)
end

-- The sum of the stored counts of all groups.
local function bytes_of_groups()
  if not afford(ceil(call('DBSIZE') / 4)) then return nil end
  local pattern, cursor, bytes, seen = literal(prefix) .. 'group:*:meta', '0', 0, {}
  repeat
    local next_cursor, keys = unpack(call('SCAN', cursor, 'MATCH', pattern, 'COUNT', 1000))
    for _, key in ipairs(keys) do
      local name = match(sub(key, #prefix + 1), '^group:([^:]+):meta$')
      if name and not seen[name] then
        seen[name] = true
        if not afford(1) then return nil end
        bytes = bytes + stored_bytes_of(name)
      end
    end
    cursor = next_cursor
  until cursor == '0'
  return bytes
end
