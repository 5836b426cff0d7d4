#!lua
-- enqueue: adds jobs, each at most once. Refused completely, before any effect, if memory is full.
-- Key: the partition.
-- Arguments: [1] time, then runs of equal jobs: group, place (level:type), cost, delay in µs, bulk
-- action ('' none), number of jobs, then per job its id and the tail of its row: ':' and the
-- payload, or '+', the trace in TRACE_BYTES bytes and the payload.
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

-- Adds `jobs` equal jobs from argument `at` on; returns the index after them.
local function enqueue_run(cx, at, group, lane, cost, delay_us, bulk_name, jobs)
  local bulk, closed = open_bulk(cx, group.name, bulk_name)
  cost = cost == '1' and '' or cost
  local head = queue.row_head(cx, lane, cost, bulk)
  local ids, created, known, rows = {}, 0, queue.has_type(cx, lane.type), queue.rows_key(cx, group.name)
  local room =
    min(cx.partition.whole_backlog_max - cx.partition.backlog, cx.partition.group_backlog_max - group.backlog)
  local bytes_room = min(cx.partition.stored_bytes_max - cx.partition.stored_bytes,
    cx.partition.group_stored_bytes_max - group.stored_bytes)
  local is_closed, bytes = closed or not known, 0
  for index = at, at + 2 * jobs - 1, 2 do
    local id, tail = cx.arguments[index], cx.arguments[index + 1]
    local size = queue.payload_bytes(tail)
    cx.answered = cx.answered + 1
    local is_refused = is_closed or created >= room or size > 0 and bytes >= bytes_room
    if not is_refused and call('HSETNX', rows, id, head .. tail) == 1 then
      created, bytes = created + 1, bytes + size
      ids[created], cx.receipts[cx.answered] = id, 'c'
    else
      local row = call('HGET', rows, id)
      if row then
        local letter, owner = compared(cx, row, lane, cost, bulk_name, tail)
        cx.receipts[cx.answered], cx.known_bulks[#cx.known_bulks + 1] = letter, owner
      else
        cx.receipts[cx.answered] = refused(cx, group, closed, size, created, bytes)
      end
    end
  end
  if created > 0 then queue.count_and_place(cx, group, lane, delay_us, ids, bytes, bulk, known) end
  cx.answered = cx.answered + 1
  cx.receipts[cx.answered] = text(group.backlog)
  return at + 2 * jobs
end

function queue.ops.enqueue(cx)
  kernel.read_partition(cx, FIELDS)
  cx.receipts, cx.answered, cx.known_bulks = {}, 0, {}

  local at = 2
  while cx.arguments[at] do
    local name, place, cost, delay_us, bulk_name, jobs = unpack(cx.arguments, at, at + 5)
    local group, lane = queue.group_state(cx, name, place)
    at = enqueue_run(cx, at + 6, group, lane, cost, delay_us, bulk_name, tonumber(jobs))
  end
  queue.write_all(cx)
  return {table.concat(cx.receipts), unpack(cx.known_bulks)}
end
