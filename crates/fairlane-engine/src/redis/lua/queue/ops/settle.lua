#!lua flags=allow-oom
-- settle: ends attempts. The current fence applies; the one settled last gets the same reply again.
-- Key: the partition.
-- Arguments: [1] time, then runs of equal settlements: group, padded fence, outcome (s f c r t l),
-- delay in µs, Retry-After in µs, jobs, whether notes follow (0 1), then per job its id and,
-- if so, its note.
-- Replies a letter per job: a applied, s stale, g gone.
local FIELDS = {
  'fence', 'sequence', 'backlog', 'classic', 'alpha', 'completed', 'max_retry_count', 'max_throttle_count',
  'completed_kept_max', 'stored_bytes', 'completed_retention_ms', 'failed_kept_max', 'failed_retention_ms',
}

local function set_run(cx, id, run)
  cx.sets[cx.size + 1], cx.sets[cx.size + 2] = ':' .. id, run
  cx.size = cx.size + 2
end

-- Responses are counted when they matter: before a cut, and at the end.
local function count_answers(cx, name)
  if cx.answers[name] then queue.count_goodput(cx, queue.type_state(cx, name), cx.answers[name]) end
  cx.answers[name] = nil
end

-- Retries the job unless the retries of its type, or of the queue, are used up; returns the run.
local function retry(cx, group, id, held, run, delay_us, unwanted)
  run.attempts = run.attempts + 1
  local dead_at = tonumber(match(queue.type_state(cx, held.type).limits, '^%d:%d+:(%d+)') or 0)
  if dead_at == 0 then dead_at = cx.partition.max_retry_count + 1 end
  if run.attempts >= dead_at then return queue.end_job(cx, group, id, held, run, 'failed') end
  if unwanted then return queue.end_job(cx, group, id, held, run, 'cancelled') end
  return queue.wait_again(cx, group, held, id, run, delay_us)
end

local function throttled(cx, group, id, held, run, fence, delay_us, retry_after_us, unwanted)
  count_answers(cx, held.type)
  queue.note_refusal(cx, queue.type_state(cx, held.type), tonumber(fence), tonumber(retry_after_us))
  run.throttles = run.throttles + 1
  delay_us = max(delay_us, queue.congestion_delay(cx, group, unwanted))
  if run.throttles > cx.partition.max_throttle_count then
    run.note = 'throttled too often'
    return retry(cx, group, id, held, run, delay_us, unwanted)
  end
  if unwanted then return queue.end_job(cx, group, id, held, run, 'cancelled') end
  return queue.wait_again(cx, group, held, id, run, delay_us)
end

-- Refunds the cost of a released job to its lane, and returns the job to the head.
local function release(cx, group, id, held, run, unwanted)
  if unwanted then return queue.end_job(cx, group, id, held, run, 'cancelled') end
  local _, lane = queue.group_state(cx, group.name, held.place)
  local epoch = queue.type_state(cx, held.type)[lane.level].epoch
  group.backlog, cx.partition.backlog = group.backlog + 1, cx.partition.backlog + 1
  if cx.partition.classic == 0 and (lane.standing == 'A' or lane.epoch == epoch) then
    lane.remainder = lane.remainder - held.cost * UNITS
  end
  queue.return_to_lane(cx, group, lane, id, 'LPUSH')
  return queue.run_text('N', held, run)
end

-- Handles everything but plain success, which `settle_run` does itself.
local function apply(cx, group, id, held, bytes, fence, outcome, delay_us, retry_after_us, note)
  local run, unwanted = queue.read_run(cx, held, bytes, group.name, id), queue.is_unwanted(cx, held)
  run.settled = fence .. cx.stamp
  if outcome == 't' then
    return throttled(cx, group, id, held, run, fence, delay_us, retry_after_us, unwanted)
  end
  if outcome == 'l' then return release(cx, group, id, held, run, unwanted) end
  run.note = note
  if outcome == 'r' then return retry(cx, group, id, held, run, delay_us, unwanted) end
  run.attempts = run.attempts + 1
  return queue.end_job(cx, group, id, held, run,
    outcome == 'f' and 'failed' or outcome == 'c' and 'cancelled' or 'succeeded')
end

-- The verdict on a job that is not leased under this fence.
local function not_held(cx, group_name, id, fence)
  local run = call('HGET', queue.rows_key(cx, group_name), ':' .. id)
  if run then return sub(run, 2, 17) == fence and 'a' or 's' end
  return call('HEXISTS', queue.rows_key(cx, group_name), id) == 1 and 's' or 'g'
end

-- Settles `jobs` equal settlements from argument `at` on; returns the index after them.
local function settle_run(cx, at, group_name, fence, outcome, delay_us, retry_after_us, jobs, stride)
  local asked, group_part = {}, group_name .. ':'
  for index = 1, jobs do asked[index] = group_part .. cx.arguments[at + (index - 1) * stride] end
  local values, group, ends = call('HMGET', cx.prefix .. 'in-flight', unpack(asked)), nil, {}
  for index, name in ipairs(asked) do
    local id, value, verdict = cx.arguments[at + (index - 1) * stride], values[index], 'a'
    local held, bytes
    if value then held, bytes = queue.parse_hold(cx, value) end
    if held and held.fence == fence then
      group = group or queue.group_state(cx, group_name)
      local note = stride == 2 and cx.arguments[at + 2 * index - 1] or ''
      ends[held] = (ends[held] or 0) + 1
      cx.ended[#cx.ended + 1] = name
      if outcome ~= 't' and outcome ~= 'l' then cx.answers[held.type] = (cx.answers[held.type] or 0) + 1 end
      if outcome == 's' and note == '' and held.known == 'n' then
        held.done = held.done
          or 'C' .. fence .. cx.stamp .. ':' .. held.place .. ':' .. held.cost .. ':1:0:0:' .. held.worker
          .. ':'
        held.plain = (held.plain or 0) + 1
        queue.file_end(cx, group, id, held.bulk, false, bytes)
        set_run(cx, id, held.done)
      else
        set_run(cx, id,
          apply(cx, group, id, held, bytes, fence, outcome, tonumber(delay_us), retry_after_us, note))
      end
    else
      verdict = not_held(cx, group_name, id, fence)
    end
    cx.verdicts[#cx.verdicts + 1] = verdict
  end
  for held, count in pairs(ends) do
    queue.end_leases(cx, group, queue.type_state(cx, held.type), held, count)
    if held.plain then
      queue.count_ends(cx, group, held.bulk, 'succeeded', held.plain, 0)
      queue.count_jobs(cx, held.type, -held.plain)
    end
    held.plain = nil
  end
  if cx.size > 0 then call('HSET', queue.rows_key(cx, group_name), unpack(cx.sets, 1, cx.size)) end
  cx.size = 0
  return at + jobs * stride
end

function queue.ops.settle(cx)
  kernel.read_partition(cx, FIELDS)
  queue.begin_ending(cx)
  cx.stamp, cx.verdicts, cx.answers, cx.ended = format('%016d', cx.now), {}, {}, {}
  cx.sets, cx.size = {}, 0

  local at = 2
  while cx.arguments[at] do
    local group, fence, outcome, delay_us, retry_after_us, jobs, notes = unpack(cx.arguments, at, at + 6)
    at = settle_run(cx, at + 7, group, fence, outcome, delay_us, retry_after_us, tonumber(jobs), 1 + notes)
  end
  for name in pairs(cx.answers) do queue.count_goodput(cx, queue.type_state(cx, name), cx.answers[name]) end
  if #cx.ended > 0 then
    call('HDEL', cx.prefix .. 'in-flight', unpack(cx.ended))
    queue.leave_batches(cx)
  end
  queue.record_ended(cx)
  queue.wake_for_freed_seats(cx)
  queue.purge(cx)
  queue.write_all(cx)
  return table.concat(cx.verdicts)
end
