#!lua flags=allow-oom
-- set_queue: replaces the queue's settings: the rate of all types together, level order,
-- limits, retention.
-- KEYS[1] the partition.
-- ARGV[1] time, then field and value of each setting.
-- Replies 'set', or 'in use' if the discipline would change while there are jobs.
--@include base
--@include rate
--@include lane
--@include write
local fields, changed = {'bucket', 'backlog'}, false
for at = 2, #ARGV, 2 do fields[#fields + 1] = ARGV[at] end
read_partition(fields)
local rate_before, busy = partition.rate, partition.backlog > 0 or call('ZCARD', prefix .. 'active-groups') > 0

local function has_work(name)
  return is_active(type_state(name)) or call('EXISTS', prefix .. 'ready-queue:' .. name) == 1
end
-- A cancelled job that is still in a list keeps its lane active.
for _, name in ipairs(call('SMEMBERS', prefix .. 'types')) do busy = busy or has_work(name) end
for at = 2, #ARGV, 2 do
  if ARGV[at] == 'classic' and tonumber(ARGV[at + 1]) ~= partition.classic and busy then return 'in use' end
end
for at = 2, #ARGV, 2 do
  local field, value = ARGV[at], ARGV[at + 1]
  if type(partition[field]) == 'number' then value = tonumber(value) end
  if partition[field] ~= value then changed = true end
  -- Every setting is stored, defaults too, so that a program with other defaults reads
  -- the same values.
  partition[field], partition_was[field] = value, nil
end
partition.bucket = changed_bucket(partition.bucket, rate_before, partition.rate)
if changed then
  for _, name in ipairs(call('SMEMBERS', prefix .. 'types')) do
    if has_work(name) then push_token(name) end
  end
end
write_all()
return 'set'
