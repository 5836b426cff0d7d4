-- The end of jobs: counted once, filed with their bulk action or with the finished
-- jobs that have none.

function queue.review_later(cx, bulk)
  if bulk.reviewed then return end
  bulk.reviewed = true
  cx.reviewed[#cx.reviewed + 1] = bulk
end

-- Counts the end of `jobs` of a group and bulk action; `how` names the count of the bulk action. The
-- totals of the partition are written with its other fields, once for all jobs of a call.
function queue.count_ends(cx, group, number, how, jobs, throttles)
  local bulk = number ~= '' and queue.bulk_state(cx, number)
  group.done = group.done + jobs
  if how == 'succeeded' then
    cx.partition.succeeded_total = cx.partition.succeeded_total + jobs
  elseif how == 'failed' then
    cx.partition.dead_total = cx.partition.dead_total + jobs
  end
  if throttles > 0 then
    local known = queue.record(group)
    known.throttles = known.throttles + throttles
  end
  if bulk then
    bulk[how] = bulk[how] + jobs
    queue.review_later(cx, bulk)
  end
end

-- Counts the bytes of completed jobs of a group, outside bulk actions.
function queue.count_completed(cx, group, bytes)
  if not group.completed_bytes then
    cx.completed_groups[#cx.completed_groups + 1], group.completed_bytes = group, 0
  end
  group.completed_bytes = group.completed_bytes + bytes
end

-- Files a job with this many bytes of payload and note.
function queue.file_end(cx, group, id, number, dead, bytes)
  local bulk, name = number ~= '' and queue.bulk_state(cx, number), group.name .. ':' .. id
  if bulk then
    bulk.chunk[#bulk.chunk + 1] = id
    queue.review_later(cx, bulk)
  elseif not dead then
    cx.completed[#cx.completed + 1] = name
    queue.count_completed(cx, group, bytes)
  end
  if dead then call('ZADD', cx.prefix .. 'failed', text(cx.now), name) end
end

-- A chunk is `time:jobs` and their names. For finished jobs, `:group:bytes` follows for each group,
-- so that the chunk can be removed without reading its jobs.
local function chunk_text(cx, names, sizes)
  return text(cx.now) .. ':' .. #names .. sizes .. '\n' .. table.concat(names, '\n')
end

local function completed_sizes(cx)
  local sizes = {}
  for index, group in ipairs(cx.completed_groups) do
    sizes[index] = ':' .. group.name .. ':' .. text(group.completed_bytes)
  end
  return table.concat(sizes)
end

function queue.record_ended(cx)
  if #cx.completed > 0 then
    call('RPUSH', cx.prefix .. 'completed', chunk_text(cx, cx.completed, completed_sizes(cx)))
    if cx.partition.completed then
      cx.partition.completed = cx.partition.completed + #cx.completed
    else
      call('HINCRBY', cx.partition_key, 'completed', #cx.completed)
    end
  end
  for _, bulk in ipairs(cx.reviewed) do
    if #bulk.chunk > 0 then call('RPUSH', bulk.key .. ':ended', chunk_text(cx, bulk.chunk, '')) end
    queue.review_bulk(cx, bulk)
  end
end

-- The run of a job that was cancelled while it was not leased: its history stays.
function queue.cancelled_run(cx, group_name, id, place, cost)
  local run, stamp = call('HGET', queue.rows_key(cx, group_name), ':' .. id), format('%016d', cx.now)
  local throttles = run and tonumber(match(run, '^:%d:[^:]+:%d+:%d+:(%d+):', 34)) or 0
  if run then return 'X' .. sub(run, 2, 17) .. stamp .. sub(run, 34), throttles end
  return 'X' .. sub(ZEROS, 1, 16) .. stamp .. ':' .. place .. ':' .. cost .. ':0:0:0::', 0
end

-- What to do with a popped job: run, hold, drop or cancelled. Jobs of a bulk action that no longer
-- exists are dropped.
function queue.disposition_of(cx, number, cancelled)
  if cancelled then return 'cancelled' end
  if number == '' then return 'run' end
  local bulk = queue.bulk_state(cx, number)
  return bulk and bulk.course or 'drop'
end

-- Moves or ends a popped job that must not run. One that was cancelled in its list loses the mark.
function queue.skip_unrunnable(cx, group, place, id, number, cost, disposition, row)
  if disposition == 'hold' then
    return call('RPUSH', queue.bulk_state(cx, number).key .. ':held',
      queue.placed_name(place, group.name .. ':' .. id, number))
  end
  local run, throttles
  if disposition == 'drop' then
    run, throttles = queue.cancelled_run(cx, group.name, id, place, cost)
    group.backlog, cx.partition.backlog = group.backlog - 1, cx.partition.backlog - 1
    call('HSET', queue.rows_key(cx, group.name), ':' .. id, run)
    queue.count_ends(cx, group, number, 'cancelled', 1, throttles)
  else
    run = call('HGET', queue.rows_key(cx, group.name), ':' .. id)
    call('HSET', queue.rows_key(cx, group.name), id, sub(row, 2))
  end
  queue.count_jobs(cx, sub(place, 3), -1)
  queue.file_end(cx, group, id, number, false, queue.job_bytes(row, run))
end
