-- The leanest end of a lease: the job is gone.
-- KEYS: 1 leased ids by deadline. ARGV: 1 prefix of rows, then the ids.
-- Replies with the number of jobs that were leased.
local leased = KEYS[1]
local row_prefix = ARGV[1]
local ids, row_keys = {}, {}
for index = 2, #ARGV do
  ids[index - 1] = ARGV[index]
  row_keys[index - 1] = row_prefix .. ARGV[index]
end
local removed = redis.call('ZREM', leased, unpack(ids))
redis.call('DEL', unpack(row_keys))
return removed
