-- The hand-out of ended bulk actions for aggregation.

-- Whether it waits for aggregation or is leased for it.
function queue.is_to_be_taken(bulk)
  local dropped_wholly = queue.is_final(bulk) and queue.bulk_ended(bulk) == bulk.total
  return bulk.aggregated == 0 and (bulk.state == 'AGGREGATING' or dropped_wholly)
end

-- Ends the lease that a worker has on a bulk action.
function queue.let_go(cx, bulk)
  if bulk.worker == '' then return end
  call('ZREM', cx.prefix .. 'taken', bulk.worker .. ':' .. queue.padded_number(bulk))
  bulk.worker = ''
end

-- Makes a bulk action unavailable for aggregation; 1 if it was available.
function queue.take_no_more(cx, bulk)
  queue.let_go(cx, bulk)
  return call('ZREM', cx.prefix .. 'aggregating', queue.padded_number(bulk))
end

-- Makes a bulk action available for aggregation, now or from `at` on, unless it is already.
function queue.hand_out(cx, bulk, at)
  if call('ZADD', cx.prefix .. 'aggregating', 'NX', text(at or cx.now), queue.padded_number(bulk)) == 1 then
    queue.let_go(cx, bulk)
  end
end
