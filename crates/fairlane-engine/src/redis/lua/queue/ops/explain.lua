#!lua flags=allow-oom,no-writes
-- explain: what a job may be waiting for. Read-only; the caller interprets the facts.
-- Key: the partition.
local FIELDS =
  {'bucket', 'rate', 'classic', 'max_retry_count', 'ready_queue_max_size', 'global_rps', 'window'}

-- The position of a job in its backlog. Backlogs are sorted by enqueue time unless the clock has
-- stepped, so a binary search finds the first job of its time; jobs enqueued with it follow.
local function position_of(cx, job, place, created_at)
  local key = cx.prefix .. 'group:' .. job.group .. ':jobs:' .. place
  local low, high = 0, call('LLEN', key)
  while low < high do
    local middle = floor((low + high) / 2)
    local row = call('HGET', queue.rows_key(cx, job.group), call('LINDEX', key, text(middle)))
    if precedes(match(row or '', '^X?(..........)') or '', created_at) then
      low = middle + 1
    else
      high = middle
    end
  end
  for index, other in ipairs(call('LRANGE', key, text(low), text(low + EXPLAIN_SCAN_MAX - 1))) do
    if other == job.id then return low + index - 1 end
  end
end

-- When a bucket allows the next job, or nil for now.
local function opens_at(cx, bucket, flow)
  local missing = flow and flow.job_units - kernel.refilled(cx, bucket, flow) or 0
  return missing > 0 and cx.now + ceil(missing / flow.units_per_us) or nil
end

local function rules_of(cx, group)
  local stored = cx.partition
  return {
    discipline = stored.classic == 1 and 'Classic' or 'Share', max_retry_count = stored.max_retry_count,
    rate = kernel.rate_of(stored.rate), ready_queue_max_size = stored.ready_queue_max_size,
    global_rps = stored.global_rps, passed = queue.passed_in(cx, stored.window),
    group_rps = queue.group_speed(cx),
    group_passed = queue.passed_in(cx, call('HGET', group.key, 'window') or '0:0'),
  }
end

function queue.ops.explain(cx, command)
  local job = queue.read_job(cx, command.job.group, command.job.id)
  if not job then return nil end
  local created_at, place, number = match(job.row, '^X?(..........)(%d:[^:]+):%d*:(%d*)[:+]')
  kernel.read_fields(cx, FIELDS)
  local group, state = queue.group_state(cx, job.group), queue.type_state(cx, sub(place, 3))
  local is_listed = not job.due and not job.held and (not job.run or sub(job.run, 1, 1) == 'N')
  local group_flow = cx.partition.classic == 0 and group.flow or nil
  local bulk = number ~= '' and queue.bulk_state(cx, number)
  job.row = queue.head_of(job.row)
  local view, course = queue.view_job(cx, job)
  return {
    at = cx.now, job = view, unwanted = job.held and (course == 'drop' or match(job.held, '^%u', 33) ~= nil),
    position = is_listed and position_of(cx, job, place, created_at) or nil,
    group = queue.view_group(cx, job.group), of_type = queue.view_type(cx, state.name),
    bulk = bulk and queue.view_bulk(bulk) or nil, rules = rules_of(cx, group),
    group_opens_at = opens_at(cx, group.bucket, group_flow),
    type_opens_at = opens_at(cx, state.bucket, queue.type_flow(cx, state)),
    queue_opens_at = opens_at(cx, cx.partition.bucket, kernel.flow_of(cx.partition.rate)),
  }
end
