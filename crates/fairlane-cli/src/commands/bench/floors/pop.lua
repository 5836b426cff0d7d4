-- The leanest pop that keeps a lease.
-- KEYS: 1 queue of ids, 2 leased ids by deadline. ARGV: 1 prefix of rows, 2 most jobs, 3 deadline.
-- Replies with the ids and their rows.
local queue, leased = KEYS[1], KEYS[2]
local row_prefix, jobs_max, deadline = ARGV[1], ARGV[2], ARGV[3]
local ids = redis.call('LPOP', queue, jobs_max)
if not ids then
  return { {}, {} }
end
local row_keys, entries = {}, {}
for index, id in ipairs(ids) do
  row_keys[index] = row_prefix .. id
  entries[2 * index - 1] = deadline
  entries[2 * index] = id
end
redis.call('ZADD', leased, unpack(entries))
return { ids, redis.call('MGET', unpack(row_keys)) }
