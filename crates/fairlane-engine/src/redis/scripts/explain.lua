#!lua flags=allow-oom,no-writes
-- explain: what a job may be waiting for. Read-only; the caller interprets the facts.
-- KEYS[1] the partition.
-- ARGV[1] time, [2] the job, group:id.
-- Replies '' if the job does not exist, else {facts, job, group, type, bulk action}: the last four
-- as in `views` and `show_bulk`, {} without a bulk action. Facts are {time, whether the job is
-- running and cancelled (0 1), jobs before it in its backlog or '', when the rates of group, type
-- and queue allow the next job, or '' for now, classic (0 1), retries, rate of the queue, most
-- ready jobs, jobs per second of the queue and how many have passed, jobs per second of the group
-- and how many have passed}.
--@include base
--@include rate
--@include lane
--@include write
--@include order
--@include downstream
--@include bulk
--@include congestion
--@include views
local name = ARGV[2]
local group_name, id = match(name, '^([^:]+):(.+)$')

-- The position of a job in its backlog. Backlogs are sorted by enqueue time unless the clock has
-- stepped, so a binary search finds the first job of its time; jobs enqueued with it follow.
local function position_of(place, created_at)
  local key = prefix .. 'group:' .. group_name .. ':jobs:' .. place
  local low, high = 0, call('LLEN', key)
  while low < high do
    local middle = floor((low + high) / 2)
    local row = call('HGET', rows_key(group_name), call('LINDEX', key, text(middle)))
    if precedes(match(row or '', '^X?(..........)') or '', created_at) then low = middle + 1 else high = middle end
  end
  for index, other in ipairs(call('LRANGE', key, text(low), text(low + EXPLAIN_SCAN_MAX - 1))) do
    if other == id then return text(low + index - 1) end
  end
  return ''
end

-- When a bucket allows the next job, or '' for now.
local function opens_at(bucket, flow)
  local missing = flow and flow.job_units - refilled(bucket, flow) or 0
  return missing > 0 and text(now + ceil(missing / flow.units_per_us)) or ''
end

-- Jobs that have passed a window, `second:jobs`, in this second.
local function passed_in(window)
  local second, jobs = match(window, '^(%d+):(%d+)$')
  return tonumber(second) == floor(now / 1000000) and jobs or '0'
end

local job = views.job(name)
if job == '' then return '' end
local row, run, due, held, course = job[1], job[2], job[3], job[4], job[7]
local created_at, place, number = match(row, '^X?(..........)(%d:[^:]+):%d*:(%d*)[:+]')
read_fields({'bucket', 'rate', 'classic', 'max_retry_count', 'ready_queue_max_size', 'global_rps', 'window'})
local group, state = group_state(group_name), type_state(sub(place, 3))
local is_listed = due == '' and held == '' and (run == '' or sub(run, 1, 1) == 'N')
local is_unwanted = held ~= '' and (course == 'drop' or match(held, '^%u', 33) ~= nil)
local group_flow = partition.classic == 0 and group.flow or nil
local bulk = number ~= '' and bulk_state(number)
job[1] = head_of(row)
return {
  {
    text(now), is_unwanted and 1 or 0, is_listed and position_of(place, created_at) or '',
    opens_at(group.bucket, group_flow), opens_at(state.bucket, type_flow(state)),
    opens_at(partition.bucket, flow_of(partition.rate)), text(partition.classic), text(partition.max_retry_count),
    partition.rate, text(partition.ready_queue_max_size), text(partition.global_rps), passed_in(partition.window),
    text(group_speed()), passed_in(call('HGET', group.key, 'window') or '0:0'),
  },
  job, views.group(group_name), views.type(state.name), bulk and show_bulk({}, bulk) or {},
}
