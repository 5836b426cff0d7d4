#!lua
-- open_bulk: creates a bulk action, to which jobs can be added until it is sealed. An existing
-- one is not changed.
-- Key: the partition.
local FIELDS = {'opened', 'stored_bytes', 'group_stored_bytes_max', 'stored_bytes_max'}

local function full(refusal)
  return {Full = {refusal = refusal, retry_after_ms = REFUSAL_RETRY_MS}}
end

function queue.ops.open_bulk(cx, command)
  local group_name, name, payload = command.bulk.group, command.bulk.id, command.payload
  kernel.read_partition(cx, FIELDS)
  local known, key = queue.bulk_number(cx, group_name, name), cx.prefix .. 'group:' .. group_name .. ':bulks'
  if known then return {Exists = queue.view_bulk(queue.bulk_state(cx, known))} end
  if call('ZCARD', key) >= GROUP_BULKS_MAX then return 'TooMany' end
  local group = payload ~= '' and queue.group_state(cx, group_name)
  if group and cx.partition.stored_bytes >= cx.partition.stored_bytes_max then
    return full('QueueBytesFull')
  end
  if group and group.stored_bytes >= cx.partition.group_stored_bytes_max then
    return full('GroupBytesFull')
  end
  cx.partition.opened = cx.partition.opened + 1
  local number = text(cx.partition.opened)
  call('ZADD', key, number, name)
  call('ZADD', cx.prefix .. 'group:' .. group_name .. ':unfinished', number, name)
  call('HSETNX', cx.prefix .. 'group:' .. group_name .. ':meta', 'counts', '0:0:0:0')
  call('HSET', cx.prefix .. 'bulk:' .. number, 'name', group_name .. ':' .. name, 'state', 'CREATED',
    'course', 'run',
    'created_at', text(cx.now), 'fails_at', text(command.failures_max and command.failures_max + 1 or 0))
  if group then
    call('HSET', cx.prefix .. 'bulk:' .. number, 'payload', payload)
    queue.add_bytes(cx, group, #payload)
  end
  local bulk = queue.bulk_state(cx, number)
  if command.deadline_ms then
    bulk.deadline = cx.now + command.deadline_ms * 1000
    call('ZADD', cx.prefix .. 'bulk-deadlines', text(bulk.deadline), queue.padded_number(bulk))
  end
  queue.write_all(cx)
  return {Created = queue.view_bulk(bulk)}
end
