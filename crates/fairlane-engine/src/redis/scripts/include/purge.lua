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
    for name in string.gmatch(chunk, '\n([^\n]+)') do
      gone[#gone + 1] = prefix .. 'job:' .. name
      gone[#gone + 1] = prefix .. 'run:' .. name
    end
    call('UNLINK', unpack(gone))
    call('LPOP', key)
    partition[list] = partition[list] - jobs
  end
end
