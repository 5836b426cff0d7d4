#!lua
-- open_bulk: creates a bulk action, to which jobs can be added until it is sealed. An existing
-- one is not changed.
-- Key: the partition.
-- Arguments: [1] time, [2] group, [3] bulk action, [4] deadline in µs from now ('' none), [5]
-- failures at which it fails (0 none), [6] payload.
-- Replies {'created' or 'exists', fields of `show_bulk`…}, or {'too many', 'group bytes full' or
-- 'queue bytes full'}.
local FIELDS = {'opened', 'stored_bytes', 'group_stored_bytes_max', 'stored_bytes_max'}

function queue.ops.open_bulk(cx)
  local group_name, name, deadline_us, fails_at, payload = unpack(cx.arguments, 2, 6)
  kernel.read_partition(cx, FIELDS)
  local known, key = queue.bulk_number(cx, group_name, name), cx.prefix .. 'group:' .. group_name .. ':bulks'
  if known then return queue.show_bulk({'exists'}, queue.bulk_state(cx, known)) end
  if call('ZCARD', key) >= GROUP_BULKS_MAX then return {'too many'} end
  local group = payload ~= '' and queue.group_state(cx, group_name)
  if group and cx.partition.stored_bytes >= cx.partition.stored_bytes_max then return {'queue bytes full'} end
  if group and group.stored_bytes >= cx.partition.group_stored_bytes_max then return {'group bytes full'} end
  cx.partition.opened = cx.partition.opened + 1
  local number = text(cx.partition.opened)
  call('ZADD', key, number, name)
  call('ZADD', cx.prefix .. 'group:' .. group_name .. ':unfinished', number, name)
  call('HSETNX', cx.prefix .. 'group:' .. group_name .. ':meta', 'counts', '0:0:0:0')
  call('HSET', cx.prefix .. 'bulk:' .. number, 'name', group_name .. ':' .. name, 'state', 'CREATED',
    'course', 'run',
    'created_at', text(cx.now), 'fails_at', fails_at)
  if group then
    call('HSET', cx.prefix .. 'bulk:' .. number, 'payload', payload)
    queue.add_bytes(cx, group, #payload)
  end
  local bulk = queue.bulk_state(cx, number)
  if deadline_us ~= '' then
    bulk.deadline = cx.now + deadline_us
    call('ZADD', cx.prefix .. 'bulk-deadlines', text(bulk.deadline), queue.padded_number(bulk))
  end
  queue.write_all(cx)
  return queue.show_bulk({'created'}, bulk)
end
