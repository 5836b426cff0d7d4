#!lua
-- open_bulk: creates a bulk action, to which jobs can be added until it is sealed. An existing
-- one is not changed.
-- KEYS[1] the partition.
-- ARGV[1] time, [2] group, [3] bulk action, [4] deadline in µs from now ('' none), [5] failures at
-- which it fails (0 none), [6] payload.
-- Replies {'created' or 'exists', fields of `show_bulk`…}, or {'too many', 'group bytes full' or
-- 'queue bytes full'}.
--@include base
--@include rate
--@include lane
--@include write
--@include bytes
--@include bulk
local group_name, name, deadline_us, fails_at, payload = unpack(ARGV, 2, 6)
read_partition({'opened', 'stored_bytes', 'group_stored_bytes_max', 'stored_bytes_max'})
local known, key = bulk_number(group_name, name), prefix .. 'group:' .. group_name .. ':bulks'
if known then return show_bulk({'exists'}, bulk_state(known)) end
if call('ZCARD', key) >= GROUP_BULKS_MAX then return {'too many'} end
local group = payload ~= '' and group_state(group_name)
if group and partition.stored_bytes >= partition.stored_bytes_max then return {'queue bytes full'} end
if group and group.stored_bytes >= partition.group_stored_bytes_max then return {'group bytes full'} end
partition.opened = partition.opened + 1
local number = text(partition.opened)
call('ZADD', key, number, name)
call('ZADD', prefix .. 'group:' .. group_name .. ':unfinished', number, name)
call('HSETNX', prefix .. 'group:' .. group_name .. ':meta', 'counts', '0:0:0:0')
call('HSET', prefix .. 'bulk:' .. number, 'name', group_name .. ':' .. name, 'state', 'CREATED', 'course', 'run',
  'created_at', text(now), 'fails_at', fails_at)
if group then
  call('HSET', prefix .. 'bulk:' .. number, 'payload', payload)
  add_bytes(group, #payload)
end
local bulk = bulk_state(number)
if deadline_us ~= '' then
  bulk.deadline = now + deadline_us
  call('ZADD', prefix .. 'bulk-deadlines', text(bulk.deadline), padded_number(bulk))
end
write_all()
return show_bulk({'created'}, bulk)
