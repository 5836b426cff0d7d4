-- The end of jobs: counted once, filed with their bulk action or with the finished
-- jobs that have none.
local completed, completed_groups, completed_bytes, reviewed = {}, {}, {}, {}

local function review(bulk)
  if bulk.reviewed then return end
  bulk.reviewed = true
  reviewed[#reviewed + 1] = bulk
end

-- Counts the end of `jobs` of a group and bulk action; `how` names the count of the bulk action.
local function count_ends(group, number, how, jobs, throttles)
  local bulk = number ~= '' and bulk_state(number)
  group.done = group.done + jobs
  if throttles > 0 then
    local known = record(group)
    known.throttles = known.throttles + throttles
  end
  if bulk then
    bulk[how] = bulk[how] + jobs
    review(bulk)
  end
end

-- Files a job with this many bytes of payload and note.
local function file_end(group, id, number, dead, bytes)
  local bulk, name = number ~= '' and bulk_state(number), group.name .. ':' .. id
  if bulk then
    bulk.chunk[#bulk.chunk + 1] = id
    review(bulk)
  elseif not dead then
    completed[#completed + 1] = name
    if not completed_bytes[group.name] then completed_groups[#completed_groups + 1] = group.name end
    completed_bytes[group.name] = (completed_bytes[group.name] or 0) + bytes
  end
  if dead then call('ZADD', prefix .. 'failed', text(now), name) end
end

-- A chunk is `time:jobs` and their names. For finished jobs, `:group:bytes` follows for each group,
-- so that the chunk can be removed without reading its jobs.
local function chunk_text(names, sizes)
  return text(now) .. ':' .. #names .. sizes .. '\n' .. table.concat(names, '\n')
end

local function completed_sizes()
  local sizes = {}
  for index, name in ipairs(completed_groups) do sizes[index] = ':' .. name .. ':' .. text(completed_bytes[name]) end
  return table.concat(sizes)
end

local function record_ended()
  if #completed > 0 then
    call('RPUSH', prefix .. 'completed', chunk_text(completed, completed_sizes()))
    if partition.completed then
      partition.completed = partition.completed + #completed
    else
      call('HINCRBY', partition_key, 'completed', #completed)
    end
  end
  for _, bulk in ipairs(reviewed) do
    if #bulk.chunk > 0 then call('RPUSH', bulk.key .. ':ended', chunk_text(bulk.chunk, '')) end
    review_bulk(bulk)
  end
end

-- The run of a job that was cancelled while it was not leased: its history stays.
local function cancelled_run(group_name, id, place, cost)
  local run, stamp = call('HGET', rows_key(group_name), ':' .. id), format('%016d', now)
  local throttles = run and tonumber(match(run, '^:%d:[^:]+:%d+:%d+:(%d+):', 34)) or 0
  if run then return 'X' .. sub(run, 2, 17) .. stamp .. sub(run, 34), throttles end
  return 'X' .. sub(ZEROS, 1, 16) .. stamp .. ':' .. place .. ':' .. cost .. ':0:0:0::', 0
end

-- What to do with a popped job: run, hold, drop or cancelled. Jobs of a bulk action that no longer
-- exists are dropped.
local function disposition_of(number, cancelled)
  if cancelled then return 'cancelled' end
  if number == '' then return 'run' end
  local bulk = bulk_state(number)
  return bulk and bulk.course or 'drop'
end

-- Moves or ends a popped job that must not run. One that was cancelled in its list loses the mark.
local function skip_unrunnable(group, place, id, number, cost, disposition, row)
  if disposition == 'hold' then
    return call('RPUSH', bulk_state(number).key .. ':held', placed_name(place, group.name .. ':' .. id, number))
  end
  local run, throttles
  if disposition == 'drop' then
    run, throttles = cancelled_run(group.name, id, place, cost)
    group.backlog, partition.backlog = group.backlog - 1, partition.backlog - 1
    call('HSET', rows_key(group.name), ':' .. id, run)
    count_ends(group, number, 'cancelled', 1, throttles)
  else
    run = call('HGET', rows_key(group.name), ':' .. id)
    call('HSET', rows_key(group.name), id, sub(row, 2))
  end
  count_jobs(sub(place, 3), -1)
  file_end(group, id, number, false, job_bytes(row, run))
end
