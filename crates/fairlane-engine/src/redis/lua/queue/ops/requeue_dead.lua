#!lua
-- requeue_dead: returns dead jobs to the head of their lanes, with all their attempts; they leave
-- their bulk action.
-- Key: the partition.
local FIELDS = {'sequence', 'backlog', 'classic', 'alpha', 'group_backlog_max', 'whole_backlog_max'}

local function requeue(cx, group_name, id)
  local rows, name = queue.rows_key(cx, group_name), group_name .. ':' .. id
  local row, run = call('HGET', rows, id), call('HGET', rows, ':' .. id)
  if not row then return 'Unknown' end
  if not run or sub(run, 1, 1) ~= 'F' or call('HEXISTS', cx.prefix .. 'in-flight', name) == 1 then
    return 'NotDead'
  end
  local stamp, place, cost, number, tail = match(row, '^(..........)(%d:[^:]+):(%d*):(%d*)([:+].*)$')
  local group, lane = queue.group_state(cx, group_name, place)
  if cx.partition.backlog >= cx.partition.whole_backlog_max
    or group.backlog >= cx.partition.group_backlog_max then
    return 'Full'
  end
  call('ZREM', cx.prefix .. 'failed', name)
  if number ~= '' then call('HSET', rows, id, stamp .. place .. ':' .. cost .. ':' .. tail) end
  local settled, what, rest = match(run, '^F(%d+)(:%d:[^:]+:%d+):%d+:%d+:%d+:(.*)$')
  call('HSET', rows, ':' .. id, 'N' .. settled .. what .. ':0:0:0:' .. rest)
  local known = queue.record(group)
  known.total = known.total + 1
  group.backlog, cx.partition.backlog = group.backlog + 1, cx.partition.backlog + 1
  queue.return_to_lane(cx, group, lane, id, 'RPUSH')
  return 'Requeued'
end

function queue.ops.requeue_dead(cx, command)
  kernel.read_partition(cx, FIELDS)
  local requeued = {}
  for index, job in ipairs(command.jobs) do requeued[index] = requeue(cx, job.group, job.id) end
  queue.write_all(cx)
  return {jobs = requeued}
end
