#!lua flags=allow-oom
-- sweep: the housekeeping of the queue. Removes unrunnable jobs from the heads of lanes, ends
-- dropped jobs that wait for a time, returns jobs of resumed bulk actions to their lanes, fails
-- overdue bulk actions, removes what is past its retention, forgets idle groups, and completes the
-- index of large groups.
-- Key: the partition.
local FIELDS = {
  'sequence', 'backlog', 'classic', 'alpha', 'completed', 'stored_bytes', 'completed_kept_max',
  'completed_retention_ms', 'failed_kept_max', 'failed_retention_ms', 'bulk_retention_ms',
  'indexed',
}

local function fail_overdue(cx)
  local due = call('ZRANGE', cx.deadlines, '-inf', text(cx.now), 'BYSCORE', 'LIMIT', 0, SWEEP_BULKS_MAX)
  for _, member in ipairs(due) do
    local bulk = queue.bulk_state(cx, text(tonumber(member)))
    bulk.cause, cx.overdue = 'deadline', cx.overdue + 1
    queue.drop_bulk(cx, bulk, 'FAILED')
  end
end

local function drop_held(cx, member)
  local group, lane, id = queue.placed(cx, member)
  return queue.take_out_unrunnable(cx, group, lane.place, id)
end

-- Ends dropped jobs that wait for a time.
local function drop_waiting(cx, bulk)
  if cx.left == 0 then return end
  for _, member in ipairs(call('ZRANGE', bulk.key .. ':waiting', 0, cx.left - 1)) do
    local group, lane, id, number = queue.placed(cx, member)
    if call('ZREM', cx.prefix .. 'non-ready-queue', member) == 1 then
      queue.waits_no_more(cx, group, number, member)
      queue.take_out_unrunnable(cx, group, lane.place, id)
    else
      call('ZREM', bulk.key .. ':waiting', member)
    end
    cx.left = cx.left - 1
  end
end

local function bring_back(cx, member)
  local group, lane, id = queue.placed(cx, member)
  queue.return_to_lane(cx, group, lane, id, 'RPUSH')
  return true
end

-- Performs the pending work of one bulk action; it is scheduled again if work remains.
local function sweep_bulk(cx, bulk)
  local before, held, group = cx.left, bulk.key .. ':held',
    queue.group_state(cx, match(bulk.name, '^([^:]+)'))
  if bulk.course == 'hold' then return end
  if bulk.course == 'run' then
    local emptied = queue.sweep_list(cx, held, bring_back)
    cx.resumed = cx.resumed + before - cx.left
    if emptied then return end
  else
    local emptied = queue.sweep_list(cx, held, drop_held)
    drop_waiting(cx, bulk)
    queue.clear_heads(cx, group)
    if cx.left > 0 or emptied and queue.bulk_ended(bulk) == bulk.total then return end
  end
  call('RPUSH', cx.sweeping, bulk.number)
end

-- Removes a job that has ended and still belongs to the bulk action.
local function remove_ended(cx, rows, group_name, id, number)
  local row, run = call('HGET', rows, id), call('HGET', rows, ':' .. id)
  if not row or not run or sub(run, 1, 1) == 'N' then return end
  local _, of, cancelled = queue.read_row(row)
  if of ~= number or cancelled then return end
  call('ZREM', cx.prefix .. 'failed', group_name .. ':' .. id)
  queue.subtract_bytes(cx, group_name, queue.job_bytes(row, run))
  call('HDEL', rows, id, ':' .. id)
  if sub(run, 1, 1) == 'F' then queue.count_jobs(cx, match(run, '^:%d:([^:]+)', 34), -1) end
  cx.removed = cx.removed + 1
end

-- Removes bulk actions beyond their retention: first their jobs, a chunk at a time, and
-- then themselves.
local function remove_outlived(cx)
  while cx.left > 0 do
    local first = call('ZRANGE', cx.finished, 0, 0, 'WITHSCORES')
    local member, finished_at = first[1], first[2]
    if not member or finished_at + cx.partition.bulk_retention_ms * 1000 > cx.now then return end
    local bulk = queue.bulk_state(cx, text(tonumber(member)))
    local group_name, name = match(bulk.name, '^([^:]+):(.+)$')
    local chunk = call('LPOP', bulk.key .. ':ended')
    if chunk then
      cx.left = max(cx.left - match(chunk, '^%d+:(%d+)'), 0)
      for id in string.gmatch(chunk, '\n([^\n]+)') do
        remove_ended(cx, queue.rows_key(cx, group_name), group_name, id, bulk.number)
      end
    else
      if call('EXISTS', bulk.key .. ':held', bulk.key .. ':waiting') > 0 then return end
      call('ZREM', cx.finished, member)
      queue.take_no_more(cx, bulk)
      call('ZREM', cx.prefix .. 'group:' .. group_name .. ':bulks', name)
      queue.subtract_bytes(cx, group_name,
        call('HSTRLEN', bulk.key, 'payload') + call('HSTRLEN', bulk.key, 'summary'))
      queue.watch_idle(cx, group_name)
      call('DEL', bulk.key)
      bulk.gone, cx.bulks[bulk.number], cx.left = true, false, cx.left - 1
    end
  end
end

function queue.ops.sweep(cx, command)
  kernel.read_partition(cx, FIELDS)
  cx.left, cx.dropped, cx.resumed, cx.removed, cx.overdue = command.jobs_max, 0, 0, 0, 0
  cx.sweeping, cx.deadlines, cx.finished = cx.prefix .. 'sweeping', cx.prefix .. 'bulk-deadlines',
    cx.prefix .. 'finished-bulks'
  cx.clearing, cx.cleared = cx.prefix .. 'clearing', {}

  fail_overdue(cx)
  -- Bulk actions and lanes each have their own half of the budget.
  local for_lanes = call('EXISTS', cx.clearing) == 1 and floor(cx.left / 2) or 0
  cx.left = cx.left - for_lanes
  for _ = 1, min(SWEEP_BULKS_MAX, call('LLEN', cx.sweeping)) do
    if cx.left == 0 then break end
    local bulk = queue.bulk_state(cx, call('LPOP', cx.sweeping))
    if bulk then sweep_bulk(cx, bulk) end
  end
  cx.left = cx.left + for_lanes
  queue.clear_lanes(cx)
  queue.record_ended(cx)
  remove_outlived(cx)
  queue.purge(cx)
  local forgotten = queue.forget_idle_groups(cx)
  queue.complete_index(cx)
  queue.write_all(cx)
  local more = cx.left == 0 or cx.overdue == SWEEP_BULKS_MAX or forgotten == SWEEP_GROUPS_MAX
    or call('EXISTS', cx.sweeping, cx.clearing) > 0
  return {
    dropped = cx.dropped, resumed = cx.resumed, removed = cx.removed + cx.purged, overdue = cx.overdue,
    more = more,
  }
end
