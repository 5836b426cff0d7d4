-- Recounts of stored bytes; nil means that it is too much to count in one step.

-- Bytes of the jobs and bulk actions of a group.
function queue.bytes_of(cx, group_name)
  local rows, bytes = queue.rows_key(cx, group_name), 0
  if not queue.afford(cx, call('HLEN', rows)) then return nil end
  for _, id in ipairs(call('HKEYS', rows)) do
    if byte(id, 1) ~= 58 then
      local row, run = unpack(call('HMGET', rows, id, ':' .. id))
      if not queue.afford(cx, 0, 0, #row + #(run or '')) then return nil end
      bytes = bytes + queue.job_bytes(row, run)
    end
  end
  local numbers = call('ZRANGE', cx.prefix .. 'group:' .. group_name .. ':bulks', 0, -1, 'WITHSCORES')
  if not queue.afford(cx, #numbers / 2) then return nil end
  for index = 2, #numbers, 2 do
    local key = cx.prefix .. 'bulk:' .. text(tonumber(numbers[index]))
    bytes = bytes + call('HSTRLEN', key, 'payload') + call('HSTRLEN', key, 'summary')
  end
  return bytes
end

-- The stored count of a group's bytes, with the changes of this step.
function queue.stored_bytes_of(cx, group_name)
  local group = cx.groups[group_name]
  return group and group.stored_bytes
    or tonumber(call('HGET', cx.prefix .. 'group:' .. group_name .. ':meta', 'stored_bytes') or 0)
end

-- The sum of the stored counts of all groups.
function queue.bytes_of_groups(cx)
  if not queue.afford(cx, ceil(call('DBSIZE') / 4)) then return nil end
  local pattern, cursor, bytes, seen = queue.literal_pattern(cx.prefix) .. 'group:*:meta', '0', 0, {}
  repeat
    local next_cursor, keys = unpack(call('SCAN', cursor, 'MATCH', pattern, 'COUNT', 1000))
    for _, key in ipairs(keys) do
      local name = match(sub(key, #cx.prefix + 1), '^group:([^:]+):meta$')
      if name and not seen[name] then
        seen[name] = true
        if not queue.afford(cx, 1) then return nil end
        bytes = bytes + queue.stored_bytes_of(cx, name)
      end
    end
    cursor = next_cursor
  until cursor == '0'
  return bytes
end
