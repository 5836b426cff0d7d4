#!lua flags=allow-oom
-- finish_bulk: ends an aggregation, and with it a bulk action that has not ended before; or gives it back.
-- KEYS[1] the partition.
-- ARGV[1] time, [2] group, [3] bulk action, [4] fence, [5] what became of it (done failed released), [6] summary,
-- [7] µs until one that is given back can be taken.
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
  -- One that is in nobody's hands was given back before, and keeps its place.
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
