#!lua flags=allow-oom,no-writes
-- list_bulks: lists a group's bulk actions. Read-only.
-- KEYS[1] the partition.
-- ARGV[1] time, [2] group, [3] after number, [4] limit, [5] which (bulks unfinished).
-- Replies {next number or '', fields of `show_bulk` for each…}.
--@include base
--@include rate
--@include lane
--@include write
--@include order
--@include waiting
--@include downstream
--@include bulk
--@include congestion
--@include views
local name = ARGV[2]
local after, limit, key = ARGV[3], tonumber(ARGV[4]), prefix .. 'group:' .. name .. ':' .. ARGV[5]
local page = call('ZRANGE', key, '(' .. after, '+inf', 'BYSCORE', 'LIMIT', 0, limit + 1, 'WITHSCORES')
local shown, reply = min(#page / 2, limit), {''}
if #page / 2 > limit then reply[1] = text(tonumber(page[2 * limit])) end
for index = 1, shown do show_bulk(reply, bulk_state(text(tonumber(page[2 * index])))) end
return reply
