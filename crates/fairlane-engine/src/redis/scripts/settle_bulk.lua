#!lua flags=allow-oom
-- settle_bulk: ends an aggregation and thereby its bulk action, unless that has ended
-- before; or releases it.
-- KEYS[1] the partition.
-- ARGV[1] time, [2] group, [3] bulk action, [4] fence, [5] outcome (done failed released), [6]
-- summary, [7] µs until a released one can be leased.
-- Replies a letter: a applied, s stale, g gone.
--@include base
--@include rate
--@include lane
--@include write
--@include bytes
--@include bulk
local number, fence, outcome, summary = bulk_number(ARGV[2], ARGV[3]), tonumber(ARGV[4]), ARGV[5], ARGV[6]
if not number then return 'g' end
read_partition({'sequence', 'stored_bytes'})
local bulk = bulk_state(number)
if bulk.fence ~= fence or fence == 0 then return 's' end
if bulk.aggregated == 1 then return 'a' end
if outcome == 'released' then
  -- One that is not leased was released before, and keeps its position.
  if bulk.worker == '' then return 'a' end
  take_no_more(bulk)
  hand_out(bulk, now + tonumber(ARGV[7]))
  write_all()
  return 'a'
end
bulk.aggregated = 1
if summary ~= '' then
  call('HSET', bulk.key, 'summary', summary)
  add_bytes(group_state(ARGV[2]), #summary)
end
if is_final(bulk) then
  take_no_more(bulk)
else
  if outcome == 'failed' then bulk.cause = 'aggregation' end
  finish(bulk, outcome == 'failed' and 'FAILED' or 'COMPLETED')
end
write_all()
return 'a'
