#!lua flags=allow-oom
-- settle_bulk: ends an aggregation and thereby its bulk action, unless that has ended
-- before; or releases it. Adds its callback in the same step, to which no limit applies.
-- Key: the partition.
local FIELDS = {'sequence', 'backlog', 'classic', 'alpha', 'epochs', 'stored_bytes'}

-- Adds a callback, a job of its own type at the highest level.
local function add_callback(cx, group_name, callback)
  local group, lane = queue.group_state(cx, group_name, '0:' .. CALLBACK_TYPE)
  local tail = (callback.trace and '+' .. callback.trace or ':') .. callback.payload
  local row = queue.row_head(cx, lane, '', nil) .. tail
  if call('HSETNX', queue.rows_key(cx, group_name), callback.id, row) == 1 then
    local known = queue.has_type(cx, lane.type)
    queue.count_and_place(cx, group, lane, '0', {callback.id}, #callback.payload, nil, known)
  end
end

function queue.ops.settle_bulk(cx, command)
  local number = queue.bulk_number(cx, command.bulk.group, command.bulk.id)
  local fence, outcome, summary = command.fence, command.outcome, command.summary
  if not number then return 'Gone' end
  kernel.read_partition(cx, FIELDS)
  local bulk = queue.bulk_state(cx, number)
  if bulk.fence ~= fence or fence == 0 then return 'Stale' end
  if bulk.aggregated == 1 then return 'Applied' end
  if outcome.Released then
    -- One that is not leased was released before, and keeps its position.
    if bulk.worker == '' then return 'Applied' end
    queue.take_no_more(cx, bulk)
    queue.hand_out(cx, bulk, cx.now + outcome.Released.delay_ms * 1000)
    queue.write_all(cx)
    return 'Applied'
  end
  bulk.aggregated = 1
  if summary ~= '' then
    call('HSET', bulk.key, 'summary', summary)
    queue.add_bytes(cx, queue.group_state(cx, command.bulk.group), #summary)
  end
  if command.callback then add_callback(cx, command.bulk.group, command.callback) end
  if queue.is_final(bulk) then
    queue.take_no_more(cx, bulk)
  else
    if outcome == 'Failed' then bulk.cause = 'aggregation' end
    queue.finish(cx, bulk, outcome == 'Failed' and 'FAILED' or 'COMPLETED')
  end
  queue.write_all(cx)
  return 'Applied'
end
