#!lua
-- requeue_dead: returns dead jobs to the head of their lanes, with all their attempts; they leave
-- their bulk action.
-- KEYS[1] the partition.
-- ARGV[1] time, [2…] names (group:id).
-- Replies a letter per job: r requeued, n not dead, f its group or the queue is full, u unknown.
--@include base
--@include rate
--@include lane
--@include write
--@include order
--@include waiting
read_partition({'sequence', 'backlog', 'classic', 'alpha', 'group_backlog_max', 'whole_backlog_max'})

local function requeue(name)
  local group_name, id = match(name, '^([^:]+):(.+)$')
  local rows = rows_key(group_name)
  local row, run = call('HGET', rows, id), call('HGET', rows, ':' .. id)
  if not row then return 'u' end
  if not run or sub(run, 1, 1) ~= 'F' or call('HEXISTS', prefix .. 'in-flight', name) == 1 then return 'n' end
  local stamp, place, cost, number, tail = match(row, '^(..........)(%d:[^:]+):(%d*):(%d*)([:+].*)$')
  local group, lane = group_state(group_name, place)
  if partition.backlog >= partition.whole_backlog_max or group.backlog >= partition.group_backlog_max then return 'f' end
  call('ZREM', prefix .. 'failed', name)
  if number ~= '' then call('HSET', rows, id, stamp .. place .. ':' .. cost .. ':' .. tail) end
  local settled, what, rest = match(run, '^F(%d+)(:%d:[^:]+:%d+):%d+:%d+:%d+:(.*)$')
  call('HSET', rows, ':' .. id, 'N' .. settled .. what .. ':0:0:0:' .. rest)
  local known = record(group)
  known.total = known.total + 1
  group.backlog, partition.backlog = group.backlog + 1, partition.backlog + 1
  return_to_lane(group, lane, id, 'RPUSH')
  return 'r'
end

local letters = {}
for index = 2, #ARGV do letters[index - 1] = requeue(ARGV[index]) end
write_all()
return table.concat(letters)
