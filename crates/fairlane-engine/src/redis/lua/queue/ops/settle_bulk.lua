#!lua flags=allow-oom
-- settle_bulk: ends an aggregation and thereby its bulk action, unless that has ended
-- before; or releases it.
-- Key: the partition.
-- Arguments: [1] time, [2] group, [3] bulk action, [4] fence, [5] outcome (done failed released),
-- [6] summary, [7] µs until a released one can be leased.
-- Replies a letter: a applied, s stale, g gone.
local FIELDS = {'sequence', 'stored_bytes'}

function queue.ops.settle_bulk(cx)
  local number, fence, outcome, summary = queue.bulk_number(cx, cx.arguments[2], cx.arguments[3]),
    tonumber(cx.arguments[4]), cx.arguments[5], cx.arguments[6]
  if not number then return 'g' end
  kernel.read_partition(cx, FIELDS)
  local bulk = queue.bulk_state(cx, number)
  if bulk.fence ~= fence or fence == 0 then return 's' end
  if bulk.aggregated == 1 then return 'a' end
  if outcome == 'released' then
    -- One that is not leased was released before, and keeps its position.
    if bulk.worker == '' then return 'a' end
    queue.take_no_more(cx, bulk)
    queue.hand_out(cx, bulk, cx.now + tonumber(cx.arguments[7]))
    queue.write_all(cx)
    return 'a'
  end
  bulk.aggregated = 1
  if summary ~= '' then
    call('HSET', bulk.key, 'summary', summary)
    queue.add_bytes(cx, queue.group_state(cx, cx.arguments[2]), #summary)
  end
  if queue.is_final(bulk) then
    queue.take_no_more(cx, bulk)
  else
    if outcome == 'failed' then bulk.cause = 'aggregation' end
    queue.finish(cx, bulk, outcome == 'failed' and 'FAILED' or 'COMPLETED')
  end
  queue.write_all(cx)
  return 'a'
end
