#!lua
-- enqueue: adds jobs, each at most once. Refused completely, before any effect, if memory is full.
-- Key: the partition.
-- Arguments: [1] time, then runs of equal jobs with different ids: group, place (level:type), cost,
-- delay in µs, bulk action ('' none), number of jobs, then per job its id and the tail of its row: ':'
-- and the payload, or '+', the trace in TRACE_BYTES bytes and the payload.
-- A row is the time in base 36, level:type:cost ('' for 1):number of the bulk action
-- ('' none), tail.
-- Replies {per run a letter per job and then the backlog of its group, all in one text; then per
-- existing job the name of its bulk action or ''}: c created, e exists, B T L C P exists with
-- another bulk action, type, level, cost or payload, s bulk action sealed, u bulk action unknown, g
-- group full, w queue full, G W the same in bytes, t too many types.
local FIELDS = {'sequence', 'backlog', 'classic', 'alpha', 'epochs', 'group_backlog_max', 'whole_backlog_max',
  'stored_bytes', 'group_stored_bytes_max', 'stored_bytes_max'}

-- Why a new job of this size is refused after `jobs` and `bytes` of its run were accepted.
local function refused(cx, group, closed, size, jobs, bytes)
  if closed then return closed end
  if cx.partition.backlog + jobs >= cx.partition.whole_backlog_max then return 'w' end
  if group.backlog + jobs >= cx.partition.group_backlog_max then return 'g' end
  if size > 0 and cx.partition.stored_bytes + bytes >= cx.partition.stored_bytes_max then return 'W' end
  if size > 0 and group.stored_bytes + bytes >= cx.partition.group_stored_bytes_max then return 'G' end
  return 't'
end

-- The bulk action that jobs are added to, or nil; then why it accepts none, if so.
local function open_bulk(cx, group_name, name)
  if name == '' then return nil end
  local number = queue.bulk_number(cx, group_name, name)
  local bulk = number and queue.bulk_state(cx, number)
  if not bulk then return nil, 'u' end
  if bulk.sealed == 1 or queue.is_final(bulk) then return nil, 's' end
  return bulk
end

-- The letter for an existing job, and the name of its bulk action or ''. Trace and delay are not
-- compared. The name of a bulk action that no longer exists is unknown.
local function compared(cx, row, lane, cost, bulk_name, tail)
  local place, row_cost, number, at = match(row, '^X?..........(%d:[^:]+):(%d*):(%d*)()[:+]')
  local bulk = number ~= '' and queue.bulk_state(cx, number)
  local owner = bulk and match(bulk.name, ':(.+)$') or ''
  if owner ~= bulk_name and (bulk or number == '') then return 'B', owner end
  if place ~= lane.place then return sub(place, 3) == lane.type and 'L' or 'T', owner end
  if row_cost ~= cost then return 'C', owner end
  return sub(row, queue.payload_start(row, at)) == sub(tail, queue.payload_start(tail, 1)) and 'e' or 'P', owner
end

-- Adds the letters of a run to the receipts. A job without one was created.
local function answer(cx, letters, jobs, created)
  if created == jobs then
    cx.receipts[#cx.receipts + 1] = string.rep('c', jobs)
    return
  end
  for index = 1, jobs do letters[index] = letters[index] or 'c' end
  cx.receipts[#cx.receipts + 1] = table.concat(letters)
end

-- Adds `jobs` equal jobs from argument `at` on.
local function enqueue_run(cx, at, group, lane, cost, delay_us, bulk_name, jobs)
  local bulk, closed = open_bulk(cx, group.name, bulk_name)
  cost = cost == '1' and '' or cost
  local head, arguments, partition = queue.row_head(cx, lane, cost, bulk), cx.arguments, cx.partition
  local known, key, ids = queue.has_type(cx, lane.type), queue.rows_key(cx, group.name), {}
  local from = at
  for index = 1, jobs do ids[index], from = arguments[from], from + 2 end
  local rows, sets, letters, created, bytes = call('HMGET', key, unpack(ids)), {}, {}, 0, 0
  local room = (closed or not known) and 0
    or min(partition.whole_backlog_max - partition.backlog, partition.group_backlog_max - group.backlog)
  local bytes_room = min(partition.stored_bytes_max - partition.stored_bytes,
    partition.group_stored_bytes_max - group.stored_bytes)
  local width = 0
  for index = 1, jobs do
    local id, tail = ids[index], arguments[at + 1]
    local size = #tail - (byte(tail) == 43 and TRACE_BYTES or 0) - 1
    at = at + 2
    if rows[index] then
      letters[index], cx.known_bulks[#cx.known_bulks + 1] =
        compared(cx, rows[index], lane, cost, bulk_name, tail)
    elseif created >= room or size > 0 and bytes >= bytes_room then
      letters[index] = refused(cx, group, closed, size, created, bytes)
    else
      created, bytes = created + 1, bytes + size
      sets[width + 1], sets[width + 2] = id, head .. tail
      width = width + 2
      if created < index then ids[created], letters[index] = id, 'c' end
    end
  end
  if created > 0 then
    call('HSET', key, unpack(sets))
    queue.count_and_place(cx, group, lane, delay_us, ids, created, bytes, bulk, known)
  end
  answer(cx, letters, jobs, created)
  cx.receipts[#cx.receipts + 1] = text(group.backlog)
end

function queue.ops.enqueue(cx)
  kernel.read_partition(cx, FIELDS)
  cx.receipts, cx.known_bulks, cx.reads_records, cx.restores_orders = {}, {}, true, true

  local at = 2
  while cx.arguments[at] do
    local name, place, cost, delay_us, bulk_name, jobs = unpack(cx.arguments, at, at + 5)
    local group, lane = queue.group_state(cx, name, place)
    jobs = tonumber(jobs)
    enqueue_run(cx, at + 6, group, lane, cost, delay_us, bulk_name, jobs)
    at = at + 6 + 2 * jobs
  end
  queue.write_all(cx)
  return {table.concat(cx.receipts), unpack(cx.known_bulks)}
end
