#!lua flags=allow-oom
-- take_completed: bulk actions whose jobs have all ended, leased for aggregation: those that are complete, and those
-- that failed or were cancelled before.
-- KEYS[1] the partition.
-- ARGV[1] time, [2] most bulk actions, [3] lease in µs.
-- Replies {µs until the next can be taken or '', then per bulk action: fence, what is to be seen of it…}.
--@include base
--@include rate
--@include lane
--@include write
--@include order
--@include waiting
--@include bulk
local most, lease_us, key, reply = tonumber(ARGV[2]), tonumber(ARGV[3]), prefix .. 'aggregating', {''}
read_partition({'fence'})
-- After the clock stepped back: no aggregation's lease lies further ahead than it could have been given.
local lease_end = text(now + LEASE_US_MAX)
for _, member in ipairs(call('ZRANGE', key, '+inf', '(' .. lease_end, 'BYSCORE', 'REV', 'LIMIT', 0, CLAMPS_MAX)) do
  call('ZADD', key, lease_end, member)
end
for _, member in ipairs(call('ZRANGE', key, '-inf', text(now), 'BYSCORE', 'LIMIT', 0, most)) do
  local bulk = bulk_state(text(tonumber(member)))
  partition.fence = max(partition.fence + 1, now)
  bulk.fence = partition.fence
  call('ZADD', key, text(now + lease_us), member)
  reply[#reply + 1] = text(bulk.fence)
  show_bulk(reply, bulk)
end
local next_at = first_score('aggregating')
reply[1] = next_at and text(next_at - now) or ''
write_all()
return reply
