#!lua flags=allow-oom,no-writes
-- explain: what a job may be waiting for. Read-only; the caller interprets the facts.
-- Key: the partition.
-- Arguments: [1] time, [2] the job, group:id.
-- Replies '' if the job does not exist, else {facts, job, group, type, bulk action}: the last four
-- as in `views` and `show_bulk`, {} without a bulk action. Facts are {time, whether the job is
-- running and cancelled (0 1), jobs before it in its backlog or '', when the rates of group, type
-- and queue allow the next job, or '' for now, classic (0 1), retries, rate of the queue, most
-- ready jobs, jobs per second of the queue and how many have passed, jobs per second of the group
-- and how many have passed}.
local FIELDS =
  {'bucket', 'rate', 'classic', 'max_retry_count', 'ready_queue_max_size', 'global_rps', 'window'}

-- The position of a job in its backlog. Backlogs are sorted by enqueue time unless the clock has
-- stepped, so a binary search finds the first job of its time; jobs enqueued with it follow.
local function position_of(cx, place, created_at)
  local key = cx.prefix .. 'group:' .. cx.group_name .. ':jobs:' .. place
  local low, high = 0, call('LLEN', key)
  while low < high do
    local middle = floor((low + high) / 2)
    local row = call('HGET', queue.rows_key(cx, cx.group_name), call('LINDEX', key, text(middle)))
    if precedes(match(row or '', '^X?(..........)') or '', created_at) then
      low = middle + 1
    else
      high = middle
    end
  end
  for index, other in ipairs(call('LRANGE', key, text(low), text(low + EXPLAIN_SCAN_MAX - 1))) do
    if other == cx.id then return text(low + index - 1) end
  end
  return ''
end

-- When a bucket allows the next job, or '' for now.
local function opens_at(cx, bucket, flow)
  local missing = flow and flow.job_units - kernel.refilled(cx, bucket, flow) or 0
  return missing > 0 and text(cx.now + ceil(missing / flow.units_per_us)) or ''
end

function queue.ops.explain(cx)
  local name = cx.arguments[2]
  cx.group_name, cx.id = match(name, '^([^:]+):(.+)$')

  local job = queue.view_job(cx, name)
  if job == '' then return '' end
  local row, run, due, held, course = job[1], job[2], job[3], job[4], job[7]
  local created_at, place, number = match(row, '^X?(..........)(%d:[^:]+):%d*:(%d*)[:+]')
  kernel.read_fields(cx, FIELDS)
  local group, state = queue.group_state(cx, cx.group_name), queue.type_state(cx, sub(place, 3))
  local is_listed = due == '' and held == '' and (run == '' or sub(run, 1, 1) == 'N')
  local is_unwanted = held ~= '' and (course == 'drop' or match(held, '^%u', 33) ~= nil)
  local group_flow = cx.partition.classic == 0 and group.flow or nil
  local bulk = number ~= '' and queue.bulk_state(cx, number)
  job[1] = queue.head_of(row)
  return {
    {
      text(cx.now), is_unwanted and 1 or 0, is_listed and position_of(cx, place, created_at) or '',
      opens_at(cx, group.bucket, group_flow), opens_at(cx, state.bucket, queue.type_flow(cx, state)),
      opens_at(cx, cx.partition.bucket, kernel.flow_of(cx.partition.rate)), text(cx.partition.classic),
      text(cx.partition.max_retry_count), cx.partition.rate, text(cx.partition.ready_queue_max_size),
      text(cx.partition.global_rps), text(queue.passed_in(cx, cx.partition.window)),
      text(queue.group_speed(cx)), text(queue.passed_in(cx, call('HGET', group.key, 'window') or '0:0')),
    },
    job, queue.view_group(cx, cx.group_name), queue.view_type(cx, state.name),
    bulk and queue.show_bulk({}, bulk) or {},
  }
end
