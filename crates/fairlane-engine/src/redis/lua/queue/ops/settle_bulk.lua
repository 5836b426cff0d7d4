#!lua flags=allow-oom
-- settle_bulk: ends an aggregation and thereby its bulk action, unless that has ended
-- before; or releases it. Adds its callback in the same step, to which no limit applies.
-- Key: the partition.
-- Arguments: [1] time, [2] group, [3] bulk action, [4] fence, [5] outcome (done failed released),
-- [6] summary, [7] µs until a released one can be leased; with a callback also its [8] place,
-- [9] id and [10] tail, as in `enqueue`.
-- Replies a letter: a applied, s stale, g gone.
local FIELDS = {'sequence', 'backlog', 'classic', 'alpha', 'epochs', 'stored_bytes'}

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
  local place, id, tail = cx.arguments[8], cx.arguments[9], cx.arguments[10]
  if place then
    local group, lane = queue.group_state(cx, cx.arguments[2], place)
    local row = queue.row_head(cx, lane, '', nil) .. tail
    if call('HSETNX', queue.rows_key(cx, group.name), id, row) == 1 then
      local known = queue.has_type(cx, lane.type)
      queue.count_and_place(cx, group, lane, '0', {id}, queue.payload_bytes(tail), nil, known)
    end
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
