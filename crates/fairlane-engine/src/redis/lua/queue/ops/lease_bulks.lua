#!lua flags=allow-oom
-- lease_bulks: leases bulk actions for aggregation. All their jobs have ended: they are complete,
-- or they failed or were cancelled before. Those that the worker has leased already come first,
-- with a new deadline.
-- Key: the partition.
-- Arguments: [1] time, [2] worker, [3] most bulk actions, [4] lease in µs.
-- Replies {µs until the next can be leased or '', then per bulk action: fence, fields
-- of `show_bulk`…}.
local FIELDS = {'fence'}

function queue.ops.lease_bulks(cx)
  local worker, most, until_at, key = cx.arguments[2], tonumber(cx.arguments[3]),
    text(cx.now + tonumber(cx.arguments[4])), cx.prefix .. 'aggregating'
  local taken, reply, given = cx.prefix .. 'taken', {''}, {}
  kernel.read_partition(cx, FIELDS)
  -- After the clock stepped back: lowers the deadlines of aggregations to the latest that
  -- could be set now.
  queue.lower_scores(key, text(cx.now + LEASE_US_MAX))
  -- The bulk actions that the worker has leased. An expired lease is lost, even if no other worker
  -- has leased it yet.
  local from, to = '[' .. worker .. ':', '(' .. worker .. ';'
  for _, entry in ipairs(call('ZRANGE', taken, from, to, 'BYLEX', 'LIMIT', 0, LEASE_BULKS_MAX)) do
    local member = sub(entry, -16)
    local bulk = queue.bulk_state(cx, text(tonumber(member)))
    if tonumber(call('ZSCORE', key, member) or 0) <= cx.now then
      queue.let_go(cx, bulk)
    elseif #given < most then
      given[#given + 1] = bulk
    end
  end
  local due = most > #given
    and call('ZRANGE', key, '-inf', text(cx.now), 'BYSCORE', 'LIMIT', 0, most - #given) or {}
  for _, member in ipairs(due) do
    local bulk = queue.bulk_state(cx, text(tonumber(member)))
    queue.let_go(cx, bulk)
    cx.partition.fence = max(cx.partition.fence + 1, cx.now)
    bulk.fence, bulk.worker = cx.partition.fence, worker
    call('ZADD', taken, 0, worker .. ':' .. member)
    given[#given + 1] = bulk
  end
  for _, bulk in ipairs(given) do
    call('ZADD', key, until_at, queue.padded_number(bulk))
    reply[#reply + 1] = text(bulk.fence)
    queue.show_bulk(reply, bulk)
  end
  local next_at = queue.first_score(cx, 'aggregating')
  reply[1] = next_at and text(next_at - cx.now) or ''
  queue.write_all(cx)
  return reply
end
