#!lua flags=allow-oom
-- lease_bulks: leases bulk actions for aggregation. All their jobs have ended: they are complete,
-- or they failed or were cancelled before. Those that the worker has leased already come first,
-- with a new deadline.
-- Key: the partition.
local FIELDS = {'fence'}

function queue.ops.lease_bulks(cx, command)
  local worker, most, until_at, key = command.worker, command.bulks_max,
    text(cx.now + command.lease_ms * 1000), cx.prefix .. 'aggregating'
  local taken, leased, given = cx.prefix .. 'taken', {}, {}
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
  for index, bulk in ipairs(given) do
    call('ZADD', key, until_at, queue.padded_number(bulk))
    leased[index] = {view = queue.view_bulk(bulk), fence = bulk.fence}
  end
  local next_at = queue.first_score(cx, 'aggregating')
  queue.write_all(cx)
  return {bulks = leased, wake_in_us = next_at and max(next_at - cx.now, 0)}
end
