#!lua flags=allow-oom
-- audit: rechecks suspects and, on request, repairs them in the same step. Also reads the pages of
-- the scan that finds suspects.
-- KEYS[1] the partition.
-- ARGV[1] time, [2] 0 check, 1 repair, then per suspect its kind and name:
-- job group:id | group name | backlog group | type name | bulk group:name | lease padded
-- batch | whole ''
-- Or ARGV[2] page, [3] source, [4] name, [5] cursor, [6] count, then arguments of the source:
-- keys '' | rows group | in_flight '' | sorted key | list key | groups '' with names from
-- ARGV[7] | order place | parked '' | types '' | backlogs '' | chunks key | stored_bytes '' with
-- groups from ARGV[7]
-- Replies {suspects checked, whether the first is too large to count (0 1), {per finding: number of
-- the suspect, fault, detail, stored, counted, repaired (0 1)}}; to a page {next cursor or '', then
-- keys, or per job: name, letter of `locate_job`, number of its bulk action or '', bytes; for other
-- sources see `scan_groups`}.
--@include base
--@include rate
--@include lane
--@include write
--@include order
--@include waiting
--@include bytes
--@include bulk
--@include finish_job
--@include locate_job
--@include match
--@include recount
--@include recount_bytes
--@include mend
--@include checks

function checks.backlog(name)
  local group, waiting, listed, bytes = group_state(name), waiting_of(name), listed_of(name), bytes_of(name)
  if is_put_off() or not waiting or not listed then return end
  if group.backlog ~= waiting + listed then
    found('backlog', '', group.backlog, waiting + listed, function() group.backlog = waiting + listed end)
  end
  local known = record(group)
  if known.waiting ~= waiting then
    found('waiting', '', known.waiting, waiting, function() known.waiting = waiting end)
  end
  if bytes and group.stored_bytes ~= bytes then
    found('stored-bytes', '', group.stored_bytes, bytes, function() group.stored_bytes = bytes end)
  end
end

function checks.type(name)
  local state, in_flight = type_state(name), leased_of_type(name)
  if is_put_off() then return end
  for level = 0, 2 do
    local order = state[level]
    if order.virtual_time >= VIRTUAL_TIME_HIGH then
      found('virtual-time', 'level ' .. match(order.key, 'fair%-queue:(%a+):'), 0, 0)
    end
    local counted = call('ZCARD', order.key)
    if counted ~= order.active then
      found('active', order.place, order.active, counted, function() recount_order(state, level) end)
    end
  end
  if state.virtual_time >= VIRTUAL_TIME_HIGH then found('virtual-time', 'the levels', 0, 0) end
  if in_flight and in_flight ~= state.in_flight then
    found('in-flight', '', state.in_flight, in_flight, function()
      state.in_flight = in_flight
      push_token(name)
    end)
  end
end

function checks.bulk(name)
  local group_name, bulk_name = match(name, '^([^:]+):(.+)$')
  local number = bulk_number(group_name, bulk_name)
  local bulk = number and bulk_state(number)
  local unended = bulk and unended_of(group_name, number)
  if not bulk or is_put_off() then return end
  local total = unended and bulk_ended(bulk) + unended or bulk.total
  local takeable = call('ZSCORE', prefix .. 'aggregating', padded_number(bulk)) ~= false
  if is_to_be_taken(bulk) ~= takeable then
    found(takeable and 'stray-take' or 'not-taken', '', 0, 0, function() mend_taking(bulk) end)
  end
  if total ~= bulk.total then
    found('total', '', bulk.total, total, function()
      bulk.total = total
      review(bulk)
      mend_taking(bulk)
    end)
  end
end

function checks.lease(batch)
  afford(0, call('HSTRLEN', prefix .. 'lease:' .. batch, 'names'))
  if is_put_off() then return end
  local left = call('HGET', prefix .. 'lease:' .. batch, 'left')
  if not left and call('ZSCORE', prefix .. 'deadlines', batch) then
    found('no-batch', '', 0, 0, function() call('ZREM', prefix .. 'deadlines', batch) end)
  elseif left and tonumber(left) ~= count_left(batch) then
    found('left', '', tonumber(left), count_left(batch), function() mend_batch(batch) end)
  end
end

function checks.whole()
  local key, backlog = prefix .. 'active-groups', 0
  local completed = count_chunks(prefix .. 'completed')
  local counted, bytes = afford(call('ZCARD', key)), bytes_of_groups()
  if is_put_off() then return end
  for _, name in ipairs(counted and call('ZRANGE', key, 0, -1) or {}) do backlog = backlog + stored_backlog(name) end
  if counted and backlog ~= partition.backlog then
    found('backlog', '', partition.backlog, backlog, function() partition.backlog = backlog end)
  end
  if bytes and bytes ~= partition.stored_bytes then
    found('stored-bytes', '', partition.stored_bytes, bytes, function() partition.stored_bytes = bytes end)
  end
  if completed and completed ~= partition.completed then
    found('completed', '', partition.completed, completed, function() partition.completed = completed end)
  end
end
--@include scan
--@include scan_groups

if ARGV[2] == 'page' then return pages[ARGV[3]](ARGV[4], ARGV[5], tonumber(ARGV[6])) end
mending = ARGV[2] == '1'
local read = mending and read_partition or read_fields
read({'fence', 'sequence', 'backlog', 'completed', 'stored_bytes', 'classic', 'alpha'})
local looked_at, first_too_large = 0, 0
for at = 3, #ARGV, 2 do
  suspect = looked_at + 1
  checks[ARGV[at]](ARGV[at + 1])
  if is_put_off() then break end
  if too_large then first_too_large = 1 end
  looked_at = suspect
  if spent >= AUDIT_STEP_ENTRIES then break end
end
record_ended()
write_all()
return {looked_at, first_too_large, findings}
