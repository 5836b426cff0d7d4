#!lua flags=allow-oom
-- settle_bulk: ends an aggregation and thereby its bulk action, unless that has ended
-- before; or releases it. Adds its callback in the same step, to which no limit applies.
-- KEYS[1] the partition.
-- ARGV[1] time, [2] group, [3] bulk action, [4] fence, [5] outcome (done failed released), [6]
-- summary, [7] µs until a released one can be leased; with a callback also its [8] place, [9] id
-- and [10] tail, as in `enqueue`.
-- Replies a letter: a applied, s stale, g gone.
--@include base
--@include rate
--@include lane
--@include write
--@include order
--@include waiting
--@include bytes
--@include bulk
--@include add_jobs
local number, fence, outcome, summary = bulk_number(ARGV[2], ARGV[3]), tonumber(ARGV[4]), ARGV[5], ARGV[6]
if not number then return 'g' end
read_partition({'sequence', 'backlog', 'classic', 'alpha', 'epochs', 'stored_bytes'})
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
if ARGV[8] then
  local group, lane = group_state(ARGV[2], ARGV[8])
  local id, tail = ARGV[9], ARGV[10]
  if call('HSETNX', rows_key(group.name), id, row_head(lane, '', nil) .. tail) == 1 then
    count_and_place(group, lane, '0', {id}, payload_bytes(tail), nil, has_type(lane.type))
  end
end
if is_final(bulk) then
  take_no_more(bulk)
else
  if outcome == 'failed' then bulk.cause = 'aggregation' end
  finish(bulk, outcome == 'failed' and 'FAILED' or 'COMPLETED')
end
write_all()
return 'a'
