-- What the outcome of an attempt makes of its job.

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

-- Handles everything but a plain success, which `settle_run` handles itself.
function queue.apply_outcome(cx, group, id, held, bytes, fence, outcome, delay_us, retry_after_us, note)
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
