#!lua flags=allow-oom
-- set_queue: replaces the queue's settings: the rate of all types together, level order,
-- limits, retention.
-- Key: the partition.

local function has_work(cx, name)
  return queue.is_active(queue.type_state(cx, name))
    or call('EXISTS', cx.prefix .. 'ready-queue:' .. name) == 1
end

function queue.ops.set_queue(cx, command)
  local fields, names, changed = queue.settings_fields(command.settings), {'bucket', 'backlog'}, false
  for name in pairs(fields) do names[#names + 1] = name end
  kernel.read_partition(cx, names)
  local rate_before, busy = cx.partition.rate,
    cx.partition.backlog > 0 or call('ZCARD', cx.prefix .. 'active-groups') > 0
  -- A cancelled job that is still in a list keeps its lane active.
  for _, name in ipairs(call('SMEMBERS', cx.prefix .. 'types')) do busy = busy or has_work(cx, name) end
  if busy and fields.classic ~= cx.partition.classic then return 'DisciplineInUse' end
  for field, value in pairs(fields) do
    if cx.partition[field] ~= value then changed = true end
    -- Every setting is stored, defaults too, so that a program with other defaults reads
    -- the same values.
    cx.partition[field], cx.partition_was[field] = value, nil
  end
  cx.partition.bucket = kernel.changed_bucket(cx, cx.partition.bucket, rate_before, cx.partition.rate)
  if changed then
    for _, name in ipairs(call('SMEMBERS', cx.prefix .. 'types')) do
      if has_work(cx, name) then queue.push_token(cx, name) end
    end
  end
  queue.write_all(cx)
  return 'Set'
end
