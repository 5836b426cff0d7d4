#!lua flags=allow-oom
-- reclaim: ends expired leases; after an outage none, for a grace period.
-- KEYS[1] the partition.
-- ARGV[1] time, [2] jobs after which no further batch is started.
-- Replies {jobs recovered, jobs dead, jobs cancelled, µs until the grace period ends or ''}.
--@include base
--@include rate
--@include lane
--@include write
--@include order
--@include waiting
--@include clamp
--@include bytes
--@include bulk
--@include finish_job
--@include congestion
--@include end_lease
read_partition({'sequence', 'backlog', 'classic', 'alpha', 'reclaimed_at', 'grace_until', 'max_loss_count', 'stored_bytes'})
local jobs_max, recovered, dead, cancelled, deadlines = tonumber(ARGV[2]), 0, 0, 0, prefix .. 'deadlines'

local function in_grace()
  local last = partition.reclaimed_at
  if last == 0 or last + RECLAIM_STALE_US < now then partition.grace_until = now + RECLAIM_GRACE_US end
  partition.reclaimed_at = now
  partition.grace_until = min(partition.grace_until, now + RECLAIM_GRACE_US)
  return now < partition.grace_until
end

-- Ends the lease of one job, if the deadline of this batch is still the current one.
local function take_back(name, batch)
  local value = call('HGET', prefix .. 'in-flight', name)
  if not value then return end
  local held, bytes = parse_hold(value)
  if held.batch ~= batch then return end
  local group_name, id = match(name, '^([^:]+):(.+)$')
  local group, run = group_state(group_name), read_run(held, bytes, group_name, id)
  call('HDEL', prefix .. 'in-flight', name)
  run.losses = run.losses + 1
  end_leases(group, type_state(held.type), held, 1)
  local unwanted, text_now = is_unwanted(held), nil
  if run.losses > partition.max_loss_count then
    run.note, dead = 'lost too many leases', dead + 1
    text_now = end_job(group, id, held, run, 'failed')
  elseif unwanted then
    cancelled = cancelled + 1
    text_now = end_job(group, id, held, run, 'cancelled')
  else
    text_now = wait_again(group, held, id, run, congestion_delay(group, false))
    push_token(held.type)
    recovered = recovered + 1
  end
  call('HSET', rows_key(group_name), ':' .. id, text_now)
end

local function take_back_expired()
  while recovered + dead + cancelled < jobs_max do
    local batch = call('ZRANGE', deadlines, '-inf', text(now), 'BYSCORE', 'LIMIT', 0, 1)[1]
    if not batch then return end
    call('ZREM', deadlines, batch)
    for name in string.gmatch(call('HGET', prefix .. 'lease:' .. batch, 'names') or '', '[^\n]+') do take_back(name, batch) end
  end
end

lower_far_deadlines()
local grace_left = ''
if in_grace() then
  grace_left = text(partition.grace_until - now)
else
  take_back_expired()
  leave_batches()
  record_ended()
  wake_for_freed_seats()
end
write_all()
return {recovered, dead, cancelled, grace_left}
