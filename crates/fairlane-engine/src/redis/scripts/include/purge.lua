-- Removes chunks of finished jobs that are past their time or number, oldest first.
local function purge(list, kept_max, retention_ms)
  local key = prefix .. list
  for _ = 1, PURGED_CHUNKS_MAX do
    local chunk = partition[list] > 0 and call('LINDEX', key, 0)
    if not chunk then return end
    local at, jobs = match(chunk, '^(%d+):(%d+)')
    local spare = partition[list] - jobs >= kept_max
    if not spare and at + retention_ms * 1000 > now then return end
    local gone = {}
    for name, id in string.gmatch(chunk, '\n([^:\n]+):([^\n]+)') do
      gone[name] = gone[name] or {}
      gone[name][#gone[name] + 1] = id
      gone[name][#gone[name] + 1] = ':' .. id
    end
    for name, fields in pairs(gone) do call('HDEL', rows_key(name), unpack(fields)) end
    call('LPOP', key)
    partition[list] = partition[list] - jobs
  end
end
