-- Removes finished jobs beyond their retention or number, oldest first, a few at a time.

-- Removes the jobs of a chunk of names.
local function remove_names(chunk)
  local gone = {}
  for name, id in string.gmatch(chunk, '\n([^:\n]+):([^\n]+)') do
    gone[name] = gone[name] or {}
    gone[name][#gone[name] + 1] = id
    gone[name][#gone[name] + 1] = ':' .. id
  end
  for name, fields in pairs(gone) do call('HDEL', rows_key(name), unpack(fields)) end
end

local purged = 0

local function purge_completed()
  local key = prefix .. 'completed'
  for _ = 1, PURGED_CHUNKS_MAX do
    local chunk = partition.completed > 0 and call('LINDEX', key, 0)
    if not chunk then return end
    local at, jobs = match(chunk, '^(%d+):(%d+)')
    local spare = partition.completed - jobs >= partition.completed_kept_max
    if not spare and at + partition.completed_retention_ms * 1000 > now then return end
    for name, bytes in string.gmatch(match(chunk, '^%d+:%d+([^\n]*)'), ':([^:]+):(%d+)') do subtract_bytes(name, bytes) end
    remove_names(chunk)
    call('LPOP', key)
    partition.completed, purged = partition.completed - jobs, purged + jobs
  end
end

-- Dead jobs of a bulk action stay with it.
local function purge_dead()
  local key = prefix .. 'failed'
  for _ = 1, PURGED_DEAD_MAX do
    local first = call('ZRANGE', key, 0, 0, 'WITHSCORES')
    local name, died_at = first[1], first[2]
    if not name then return end
    local spare = call('ZCARD', key) > partition.failed_kept_max
    if not spare and died_at + partition.failed_retention_ms * 1000 > now then return end
    call('ZREM', key, name)
    local group, id = match(name, '^([^:]+):(.+)$')
    local row, run = unpack(call('HMGET', rows_key(group), id, ':' .. id))
    local _, number = read_row(row or '')
    if not number or number == '' or not bulk_state(number) then
      if row then subtract_bytes(group, job_bytes(row, run)) end
      call('HDEL', rows_key(group), id, ':' .. id)
      if row then count_jobs(match(row, '^X?..........%d:([^:]+)'), -1) end
      purged = purged + 1
    end
  end
end

local function purge()
  purge_completed()
  purge_dead()
end
