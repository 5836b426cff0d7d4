#!lua flags=allow-oom
-- reclaim: ends expired leases; after an outage none, for a grace period.
-- Key: the partition.
local FIELDS = {
  'sequence', 'backlog', 'classic', 'alpha', 'reclaimed_at', 'grace_until', 'max_loss_count', 'stored_bytes',
  'dead_total',
}

local function in_grace(cx)
  local last = cx.partition.reclaimed_at
  if last == 0 or last + RECLAIM_STALE_US < cx.now then
    cx.partition.grace_until = cx.now + RECLAIM_GRACE_US
  end
  cx.partition.reclaimed_at = cx.now
  cx.partition.grace_until = min(cx.partition.grace_until, cx.now + RECLAIM_GRACE_US)
  return cx.now < cx.partition.grace_until
end

-- Ends the lease of one job, if the deadline of this batch is still the current one.
local function take_back(cx, name, batch)
  local value = call('HGET', cx.prefix .. 'in-flight', name)
  if not value then return end
  local held, bytes = queue.parse_hold(cx, value)
  if held.batch ~= batch then return end
  local group_name, id = match(name, '^([^:]+):(.+)$')
  local group, run = queue.group_state(cx, group_name), queue.read_run(cx, held, bytes, group_name, id)
  call('HDEL', cx.prefix .. 'in-flight', name)
  run.losses = run.losses + 1
  queue.end_leases(cx, group, queue.type_state(cx, held.type), held, 1)
  local unwanted, text_now = queue.is_unwanted(cx, held), nil
  if run.losses > cx.partition.max_loss_count then
    run.note, cx.dead = 'lost too many leases', cx.dead + 1
    text_now = queue.end_job(cx, group, id, held, run, 'failed')
  elseif unwanted then
    cx.cancelled = cx.cancelled + 1
    text_now = queue.end_job(cx, group, id, held, run, 'cancelled')
  else
    text_now = queue.wait_again(cx, group, held, id, run, queue.congestion_delay(cx, group, false))
    queue.push_token(cx, held.type)
    cx.recovered = cx.recovered + 1
  end
  call('HSET', queue.rows_key(cx, group_name), ':' .. id, text_now)
end

local function take_back_expired(cx)
  while cx.recovered + cx.dead + cx.cancelled < cx.jobs_max do
    local batch = call('ZRANGE', cx.deadlines, '-inf', text(cx.now), 'BYSCORE', 'LIMIT', 0, 1)[1]
    if not batch then return end
    call('ZREM', cx.deadlines, batch)
    for name in string.gmatch(call('HGET', cx.prefix .. 'lease:' .. batch, 'names') or '', '[^\n]+') do
      take_back(cx, name, batch)
    end
  end
end

function queue.ops.reclaim(cx, command)
  kernel.read_partition(cx, FIELDS)
  queue.begin_ending(cx)
  cx.jobs_max, cx.recovered, cx.dead, cx.cancelled, cx.deadlines = command.jobs_max, 0, 0, 0,
    cx.prefix .. 'deadlines'

  queue.lower_far_deadlines(cx)
  local grace_us
  if in_grace(cx) then
    grace_us = cx.partition.grace_until - cx.now
  else
    take_back_expired(cx)
    queue.leave_batches(cx)
    queue.record_ended(cx)
    queue.wake_for_freed_seats(cx)
  end
  queue.write_all(cx)
  return {recovered = cx.recovered, dead = cx.dead, cancelled = cx.cancelled, grace_us = grace_us}
end
