#!lua flags=allow-oom
-- settle: ends attempts. The current fence applies; the one settled last gets the same reply again.
-- KEYS[1] the partition.
-- ARGV[1] time, then runs of equal settlements: group, padded fence, outcome (s f c r t l),
-- delay in µs, Retry-After in µs, jobs, whether notes follow (0 1), then per job its id and,
-- if so, its note.
-- Replies a letter per job: a applied, s stale, g gone.
--@include base
--@include rate
--@include lane
--@include write
--@include order
--@include waiting
--@include downstream
--@include bytes
--@include bulk
--@include finish_job
--@include congestion
--@include end_lease
--@include purge
read_partition({
  'fence', 'sequence', 'backlog', 'classic', 'alpha', 'completed', 'max_retry_count', 'max_throttle_count', 'completed_kept_max',
  'stored_bytes', 'completed_retention_ms', 'failed_kept_max', 'failed_retention_ms',
})
local stamp, verdicts, answers, ended = format('%016d', now), {}, {}, {}
local sets, size = {}, 0

local function set_run(id, run)
  sets[size + 1], sets[size + 2] = ':' .. id, run
  size = size + 2
end

-- Responses are counted when they matter: before a cut, and at the end.
local function count_answers(name)
  if answers[name] then count_goodput(type_state(name), answers[name]) end
  answers[name] = nil
end

-- Retries the job unless the retries of its type, or of the queue, are used up; returns the run.
local function retry(group, id, held, run, delay_us, unwanted)
  run.attempts = run.attempts + 1
  local dead_at = tonumber(match(type_state(held.type).limits, '^%d:%d+:(%d+)') or 0)
  if dead_at == 0 then dead_at = partition.max_retry_count + 1 end
  if run.attempts >= dead_at then return end_job(group, id, held, run, 'failed') end
  if unwanted then return end_job(group, id, held, run, 'cancelled') end
  return wait_again(group, held, id, run, delay_us)
end

local function throttled(group, id, held, run, fence, delay_us, retry_after_us, unwanted)
  count_answers(held.type)
  refused(type_state(held.type), tonumber(fence), tonumber(retry_after_us))
  run.throttles = run.throttles + 1
  delay_us = max(delay_us, congestion_delay(group, unwanted))
  if run.throttles > partition.max_throttle_count then
    run.note = 'throttled too often'
    return retry(group, id, held, run, delay_us, unwanted)
  end
  if unwanted then return end_job(group, id, held, run, 'cancelled') end
  return wait_again(group, held, id, run, delay_us)
end

-- Refunds the cost of a released job to its lane, and returns the job to the head.
local function release(group, id, held, run, unwanted)
  if unwanted then return end_job(group, id, held, run, 'cancelled') end
  local _, lane = group_state(group.name, held.place)
  local epoch = type_state(held.type)[lane.level].epoch
  group.backlog, partition.backlog = group.backlog + 1, partition.backlog + 1
  if partition.classic == 0 and (lane.standing == 'A' or lane.epoch == epoch) then
    lane.remainder = lane.remainder - held.cost * UNITS
  end
  return_to_lane(group, lane, id, 'LPUSH')
  return run_text('N', held, run)
end

-- Handles everything but plain success, which `settle_run` does itself.
local function apply(group, id, held, bytes, fence, outcome, delay_us, retry_after_us, note)
  local run, unwanted = read_run(held, bytes, group.name, id), is_unwanted(held)
  run.settled = fence .. stamp
  if outcome == 't' then return throttled(group, id, held, run, fence, delay_us, retry_after_us, unwanted) end
  if outcome == 'l' then return release(group, id, held, run, unwanted) end
  run.note = note
  if outcome == 'r' then return retry(group, id, held, run, delay_us, unwanted) end
  run.attempts = run.attempts + 1
  return end_job(group, id, held, run, outcome == 'f' and 'failed' or outcome == 'c' and 'cancelled' or 'succeeded')
end

-- The verdict on a job that is not leased under this fence.
local function not_held(group_name, id, fence)
  local run = call('HGET', rows_key(group_name), ':' .. id)
  if run then return sub(run, 2, 17) == fence and 'a' or 's' end
  return call('HEXISTS', rows_key(group_name), id) == 1 and 's' or 'g'
end

-- Settles `jobs` equal settlements from argument `at` on; returns the index after them.
local function settle_run(at, group_name, fence, outcome, delay_us, retry_after_us, jobs, stride)
  local asked, group_part = {}, group_name .. ':'
  for index = 1, jobs do asked[index] = group_part .. ARGV[at + (index - 1) * stride] end
  local values, group, ends = call('HMGET', prefix .. 'in-flight', unpack(asked)), nil, {}
  for index, name in ipairs(asked) do
    local id, value, verdict = ARGV[at + (index - 1) * stride], values[index], 'a'
    local held, bytes
    if value then held, bytes = parse_hold(value) end
    if held and held.fence == fence then
      group = group or group_state(group_name)
      local note = stride == 2 and ARGV[at + 2 * index - 1] or ''
      ends[held] = (ends[held] or 0) + 1
      ended[#ended + 1] = name
      if outcome ~= 't' and outcome ~= 'l' then answers[held.type] = (answers[held.type] or 0) + 1 end
      if outcome == 's' and note == '' and held.known == 'n' then
        held.done = held.done or 'C' .. fence .. stamp .. ':' .. held.place .. ':' .. held.cost .. ':1:0:0:' .. held.worker .. ':'
        held.plain = (held.plain or 0) + 1
        file_end(group, id, held.bulk, false, bytes)
        set_run(id, held.done)
      else
        set_run(id, apply(group, id, held, bytes, fence, outcome, tonumber(delay_us), retry_after_us, note))
      end
    else
      verdict = not_held(group_name, id, fence)
    end
    verdicts[#verdicts + 1] = verdict
  end
  for held, count in pairs(ends) do
    end_leases(group, type_state(held.type), held, count)
    if held.plain then
      count_ends(group, held.bulk, 'succeeded', held.plain, 0)
      count_jobs(held.type, -held.plain)
    end
    held.plain = nil
  end
  if size > 0 then call('HSET', rows_key(group_name), unpack(sets, 1, size)) end
  size = 0
  return at + jobs * stride
end

local at = 2
while ARGV[at] do
  local group, fence, outcome, delay_us, retry_after_us, jobs, notes = unpack(ARGV, at, at + 6)
  at = settle_run(at + 7, group, fence, outcome, delay_us, retry_after_us, tonumber(jobs), 1 + notes)
end
for name in pairs(answers) do count_goodput(type_state(name), answers[name]) end
if #ended > 0 then
  call('HDEL', prefix .. 'in-flight', unpack(ended))
  leave_batches()
end
record_ended()
wake_for_freed_seats()
purge()
write_all()
return table.concat(verdicts)
