#!lua flags=allow-oom
-- lease_bulks: leases bulk actions for aggregation. All their jobs have ended: they are complete,
-- or they failed or were cancelled before. Those that the worker has leased already come first,
-- with a new deadline.
-- KEYS[1] the partition.
-- ARGV[1] time, [2] worker, [3] most bulk actions, [4] lease in µs.
-- Replies {µs until the next can be leased or '', then per bulk action: fence, fields
-- of `show_bulk`…}.
--@include base
--@include rate
--@include lane
--@include write
--@include order
--@include waiting
--@include bulk
local worker, most, until_at, key = ARGV[2], tonumber(ARGV[3]), text(now + tonumber(ARGV[4])), prefix .. 'aggregating'
local taken, reply, given = prefix .. 'taken', {''}, {}
read_partition({'fence'})
-- After the clock stepped back: lowers the deadlines of aggregations to the latest that
-- could be set now.
local lease_end = text(now + LEASE_US_MAX)
for _, member in ipairs(call('ZRANGE', key, '+inf', '(' .. lease_end, 'BYSCORE', 'REV', 'LIMIT', 0, CLAMPS_MAX)) do
  call('ZADD', key, lease_end, member)
end
-- The bulk actions that the worker has leased. An expired lease is lost, even if no other worker
-- has leased it yet.
local from, to = '[' .. worker .. ':', '(' .. worker .. ';'
for _, entry in ipairs(call('ZRANGE', taken, from, to, 'BYLEX', 'LIMIT', 0, LEASE_BULKS_MAX)) do
  local member = sub(entry, -16)
  local bulk = bulk_state(text(tonumber(member)))
  if tonumber(call('ZSCORE', key, member) or 0) <= now then
    let_go(bulk)
  elseif #given < most then
    given[#given + 1] = bulk
  end
end
local due = most > #given and call('ZRANGE', key, '-inf', text(now), 'BYSCORE', 'LIMIT', 0, most - #given) or {}
for _, member in ipairs(due) do
  local bulk = bulk_state(text(tonumber(member)))
  let_go(bulk)
  partition.fence = max(partition.fence + 1, now)
  bulk.fence, bulk.worker = partition.fence, worker
  call('ZADD', taken, 0, worker .. ':' .. member)
  given[#given + 1] = bulk
end
for _, bulk in ipairs(given) do
  call('ZADD', key, until_at, padded_number(bulk))
  reply[#reply + 1] = text(bulk.fence)
  show_bulk(reply, bulk)
end
local next_at = first_score('aggregating')
reply[1] = next_at and text(next_at - now) or ''
write_all()
return reply
