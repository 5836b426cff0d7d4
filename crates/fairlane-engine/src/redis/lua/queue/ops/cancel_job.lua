#!lua flags=allow-oom
-- cancel_job: jobs that have not started do not run; workers of running jobs are notified when they
-- extend. A job in a list has its row marked with X and is removed when its turn comes.
-- Key: the partition.
local FIELDS = {'backlog'}

-- Marks a running job: its entry in `in-flight` then has a capital letter.
local function mark_held(cx, name, held)
  call('HSET', cx.prefix .. 'in-flight', name,
    sub(held, 1, 32) .. string.upper(sub(held, 33, 33)) .. sub(held, 34))
  return 'Requested'
end

local function cancel(cx, job)
  local group_name, id = job.group, job.id
  local name = group_name .. ':' .. id
  local row = call('HGET', queue.rows_key(cx, group_name), id)
  if not row then return 'Unknown' end
  local held = call('HGET', cx.prefix .. 'in-flight', name)
  if held then return mark_held(cx, name, held) end
  local run = call('HGET', queue.rows_key(cx, group_name), ':' .. id)
  if run and sub(run, 1, 1) ~= 'N' then return 'Ended' end
  local group, place, cost = queue.group_state(cx, group_name), match(row, '^(%d:[^:]+):(%d*)', 11)
  local _, number = queue.read_row(row)
  local text_now, throttles = queue.cancelled_run(cx, group_name, id, place, cost == '' and '1' or cost)
  group.backlog, cx.partition.backlog = group.backlog - 1, cx.partition.backlog - 1
  call('HSET', queue.rows_key(cx, group_name), ':' .. id, text_now)
  queue.count_ends(cx, group, number, 'cancelled', 1, throttles)
  local member = queue.placed_name(place, name, number)
  if call('ZREM', cx.prefix .. 'non-ready-queue', member) == 1 then
    queue.waits_no_more(cx, group, number, member)
    queue.count_jobs(cx, sub(place, 3), -1)
    queue.file_end(cx, group, id, number, false, queue.job_bytes(row, text_now))
  else
    call('HSET', queue.rows_key(cx, group_name), id, 'X' .. row)
  end
  return 'Cancelled'
end

function queue.ops.cancel_job(cx, command)
  kernel.read_partition(cx, FIELDS)
  local cancellations = {}
  for index, job in ipairs(command.jobs) do cancellations[index] = cancel(cx, job) end
  queue.record_ended(cx)
  queue.write_all(cx)
  return {cancellations = cancellations}
end
