#!lua flags=allow-oom
-- set_whole: the rate of all types together, level order, caps and retention.
-- KEYS[1] the partition.
-- ARGV[1] time, then field and value of each setting.
-- Replies 'set'.
--@include base
--@include rate
--@include lane
--@include write
local fields, changed = {'bucket'}, false
for at = 2, #ARGV, 2 do fields[#fields + 1] = ARGV[at] end
read_partition(fields)
local rate_before = partition.rate
for at = 2, #ARGV, 2 do
  local field, value = ARGV[at], ARGV[at + 1]
  if type(partition[field]) == 'number' then value = tonumber(value) end
  if partition[field] ~= value then changed = true end
  -- Every setting is stored, defaults too, so that a program with other defaults reads what was set.
  partition[field], partition_was[field] = value, nil
end
partition.bucket = changed_bucket(partition.bucket, rate_before, partition.rate)
if changed then
  for _, name in ipairs(call('SMEMBERS', prefix .. 'types')) do
    if is_active(type_state(name)) then push_token(name) end
  end
end
write_all()
return 'set'
