#!lua flags=allow-oom
-- set_queue: replaces the queue's settings: the rate of all types together, level order,
-- limits, retention.
-- Key: the partition.
-- Arguments: [1] time, then field and value of each setting.
-- Replies 'set', or 'in use' if the discipline would change while there are jobs.

local function has_work(cx, name)
  return queue.is_active(queue.type_state(cx, name))
    or call('EXISTS', cx.prefix .. 'ready-queue:' .. name) == 1
end

function queue.ops.set_queue(cx)
  local fields, changed = {'bucket', 'backlog'}, false
  for at = 2, #cx.arguments, 2 do fields[#fields + 1] = cx.arguments[at] end
  kernel.read_partition(cx, fields)
  local rate_before, busy = cx.partition.rate,
    cx.partition.backlog > 0 or call('ZCARD', cx.prefix .. 'active-groups') > 0
  -- A cancelled job that is still in a list keeps its lane active.
  for _, name in ipairs(call('SMEMBERS', cx.prefix .. 'types')) do busy = busy or has_work(cx, name) end
  for at = 2, #cx.arguments, 2 do
    if cx.arguments[at] == 'classic' and tonumber(cx.arguments[at + 1]) ~= cx.partition.classic and busy then
      return 'in use'
    end
  end
  for at = 2, #cx.arguments, 2 do
    local field, value = cx.arguments[at], cx.arguments[at + 1]
    if type(cx.partition[field]) == 'number' then value = tonumber(value) end
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
  return 'set'
end
