-- Removes finished jobs beyond their retention or number, oldest first, a few at a time.

-- Removes the jobs of a chunk of names.
local function remove_names(cx, chunk)
  local gone = {}
  for name, id in string.gmatch(chunk, '\n([^:\n]+):([^\n]+)') do
    gone[name] = gone[name] or {}
    gone[name][#gone[name] + 1] = id
    gone[name][#gone[name] + 1] = ':' .. id
  end
  for name, fields in pairs(gone) do call('HDEL', queue.rows_key(cx, name), unpack(fields)) end
end

local function purge_completed(cx)
  local key = cx.prefix .. 'completed'
  for _ = 1, PURGED_CHUNKS_MAX do
    local chunk = cx.partition.completed > 0 and call('LINDEX', key, 0)
    if not chunk then return end
    local at, jobs = match(chunk, '^(%d+):(%d+)')
    local spare = cx.partition.completed - jobs >= cx.partition.completed_kept_max
    if not spare and at + cx.partition.completed_retention_ms * 1000 > cx.now then return end
    for name, bytes in string.gmatch(match(chunk, '^%d+:%d+([^\n]*)'), ':([^:]+):(%d+)') do
      queue.subtract_bytes(cx, name, bytes)
    end
    remove_names(cx, chunk)
    call('LPOP', key)
    cx.partition.completed, cx.purged = cx.partition.completed - jobs, cx.purged + jobs
  end
end

-- Dead jobs of a bulk action stay with it.
local function purge_dead(cx)
  local key = cx.prefix .. 'failed'
  for _ = 1, PURGED_DEAD_MAX do
    local first = call('ZRANGE', key, 0, 0, 'WITHSCORES')
    local name, died_at = first[1], first[2]
    if not name then return end
    local spare = call('ZCARD', key) > cx.partition.failed_kept_max
    if not spare and died_at + cx.partition.failed_retention_ms * 1000 > cx.now then return end
    call('ZREM', key, name)
    local group, id = match(name, '^([^:]+):(.+)$')
    local row, run = unpack(call('HMGET', queue.rows_key(cx, group), id, ':' .. id))
    local _, number = queue.read_row(row or '')
    if not number or number == '' or not queue.bulk_state(cx, number) then
      if row then queue.subtract_bytes(cx, group, queue.job_bytes(row, run)) end
      call('HDEL', queue.rows_key(cx, group), id, ':' .. id)
      if row then queue.count_jobs(cx, match(row, '^X?..........%d:([^:]+)'), -1) end
      cx.purged = cx.purged + 1
    end
  end
end

function queue.purge(cx)
  cx.purged = 0
  purge_completed(cx)
  purge_dead(cx)
end
