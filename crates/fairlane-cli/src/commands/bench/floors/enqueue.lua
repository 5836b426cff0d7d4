-- The leanest enqueue that still takes each id once.
-- KEYS: 1 queue of ids, 2 count of jobs. ARGV: 1 prefix of rows, then id and payload of each job.
-- Replies with the number of new jobs.
local queue, count = KEYS[1], KEYS[2]
local row_prefix = ARGV[1]
local new_ids, new_count = {}, 0
for index = 2, #ARGV, 2 do
  local id = ARGV[index]
  if redis.call('SETNX', row_prefix .. id, ARGV[index + 1]) == 1 then
    new_count = new_count + 1
    new_ids[new_count] = id
  end
end
if new_count > 0 then
  redis.call('RPUSH', queue, unpack(new_ids))
  redis.call('INCRBY', count, new_count)
end
return new_count
