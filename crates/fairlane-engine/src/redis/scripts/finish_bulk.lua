#!lua flags=allow-oom
-- finish_bulk: ends an aggregation, and with it a bulk action that has not ended before.
-- KEYS[1] the partition.
-- ARGV[1] time, [2] group, [3] bulk action, [4] fence, [5] whether it failed (0 1), [6] summary.
-- Replies a letter: a applied, s stale, g gone.
--@include base
--@include rate
--@include lane
--@include write
--@include bulk
local number, fence, failed, summary = bulk_number(ARGV[2], ARGV[3]), tonumber(ARGV[4]), ARGV[5] == '1', ARGV[6]
if not number then return 'g' end
read_partition({'sequence'})
local bulk = bulk_state(number)
if bulk.fence ~= fence or fence == 0 then return 's' end
if bulk.aggregated == 1 then return 'a' end
bulk.aggregated = 1
if summary ~= '' then call('HSET', bulk.key, 'summary', summary) end
if is_final(bulk) then
  call('ZREM', prefix .. 'aggregating', padded_number(bulk))
else
  if failed then bulk.cause = 'aggregation' end
  finish(bulk, failed and 'FAILED' or 'COMPLETED')
end
write_all()
return 'a'
