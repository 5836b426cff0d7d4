#!lua
-- requeue_dead: returns dead jobs to the head of their lanes, with all their attempts; they leave
-- their bulk action.
-- Key: the partition.
-- Arguments: [1] time, [2…] names (group:id).
-- Replies a letter per job: r requeued, n not dead, f its group or the queue is full, u unknown.
local FIELDS = {'sequence', 'backlog', 'classic', 'alpha', 'group_backlog_max', 'whole_backlog_max'}

local function requeue(cx, name)
  local group_name, id = match(name, '^([^:]+):(.+)$')
  local rows = queue.rows_key(cx, group_name)
  local row, run = call('HGET', rows, id), call('HGET', rows, ':' .. id)
  if not row then return 'u' end
  if not run or sub(run, 1, 1) ~= 'F' or call('HEXISTS', cx.prefix .. 'in-flight', name) == 1 then
    return 'n'
  end
  local stamp, place, cost, number, tail = match(row, '^(..........)(%d:[^:]+):(%d*):(%d*)([:+].*)$')
  local group, lane = queue.group_state(cx, group_name, place)
  if cx.partition.backlog >= cx.partition.whole_backlog_max
    or group.backlog >= cx.partition.group_backlog_max then
    return 'f'
  end
  call('ZREM', cx.prefix .. 'failed', name)
  if number ~= '' then call('HSET', rows, id, stamp .. place .. ':' .. cost .. ':' .. tail) end
  local settled, what, rest = match(run, '^F(%d+)(:%d:[^:]+:%d+):%d+:%d+:%d+:(.*)$')
  call('HSET', rows, ':' .. id, 'N' .. settled .. what .. ':0:0:0:' .. rest)
  local known = queue.record(group)
  known.total = known.total + 1
  group.backlog, cx.partition.backlog = group.backlog + 1, cx.partition.backlog + 1
  queue.return_to_lane(cx, group, lane, id, 'RPUSH')
  return 'r'
end

function queue.ops.requeue_dead(cx)
  kernel.read_partition(cx, FIELDS)
  local letters = {}
  for index = 2, #cx.arguments do letters[index - 1] = requeue(cx, cx.arguments[index]) end
  queue.write_all(cx)
  return table.concat(letters)
end
