#!lua flags=allow-oom
-- cancel_job: jobs that have not started do not run; workers of running jobs are notified when they
-- extend. A job in a list has its row marked with X and is removed when its turn comes.
-- KEYS[1] the partition.
-- ARGV[1] time, [2…] names (group:id).
-- Replies a letter per job: c cancelled, r requested of its worker, e ended before, u unknown.
--@include base
--@include rate
--@include lane
--@include write
--@include order
--@include waiting
--@include bytes
--@include bulk
--@include finish_job
read_partition({'backlog'})

-- Marks a running job: its entry in `in-flight` then has a capital letter.
local function mark_held(name, held)
  call('HSET', prefix .. 'in-flight', name, sub(held, 1, 32) .. string.upper(sub(held, 33, 33)) .. sub(held, 34))
  return 'r'
end

local function cancel(name)
  local group_name, id = match(name, '^([^:]+):(.+)$')
  local row = call('HGET', rows_key(group_name), id)
  if not row then return 'u' end
  local held = call('HGET', prefix .. 'in-flight', name)
  if held then return mark_held(name, held) end
  local run = call('HGET', rows_key(group_name), ':' .. id)
  if run and sub(run, 1, 1) ~= 'N' then return 'e' end
  local group, place, cost = group_state(group_name), match(row, '^(%d:[^:]+):(%d*)', 11)
  local _, number = read_row(row)
  local text_now, throttles = cancelled_run(group_name, id, place, cost == '' and '1' or cost)
  group.backlog, partition.backlog = group.backlog - 1, partition.backlog - 1
  call('HSET', rows_key(group_name), ':' .. id, text_now)
  count_ends(group, number, 'cancelled', 1, throttles)
  local member = placed_name(place, name, number)
  if call('ZREM', prefix .. 'non-ready-queue', member) == 1 then
    waits_no_more(group, number, member)
    count_jobs(sub(place, 3), -1)
    file_end(group, id, number, false, job_bytes(row, text_now))
  else
    call('HSET', rows_key(group_name), id, 'X' .. row)
  end
  return 'c'
end

local letters = {}
for index = 2, #ARGV do letters[index - 1] = cancel(ARGV[index]) end
record_ended()
write_all()
return table.concat(letters)
