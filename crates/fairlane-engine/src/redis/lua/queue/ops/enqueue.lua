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

-- The time in base 36, which is short: a row keeps it as long as its job exists.
local function short_time(cx)
  local letters, rest = {}, cx.now
  for index = 10, 1, -1 do
    local digit = rest % 36
    letters[index], rest = digit < 10 and 48 + digit or 87 + digit, (rest - digit) / 36
  end
  return string.char(unpack(letters))
end

-- Whether a job of this type may exist: 1 the type exists, 0 one more fits, nil none fits.
local function has_type(cx, name)
  if call('SISMEMBER', cx.prefix .. 'types', name) == 1 then return 1 end
  if call('SCARD', cx.prefix .. 'types') < TYPES_MAX then return 0 end
end

-- Why a new job of this size is refused after `jobs` and `bytes` of its run were accepted.
local function refused(cx, group, closed, size, jobs, bytes)
  if closed then return closed end
  if cx.partition.backlog + jobs >= cx.partition.whole_backlog_max then return 'w' end
  if group.backlog + jobs >= cx.partition.group_backlog_max then return 'g' end
  if size > 0 and cx.partition.stored_bytes + bytes >= cx.partition.stored_bytes_max then return 'W' end
  if size > 0 and group.stored_bytes + bytes >= cx.partition.group_stored_bytes_max then return 'G' end
  return 't'
end

local function place_jobs(cx, group, lane, delay_us, ids, number)
  if delay_us ~= '0' then
    for _, id in ipairs(ids) do queue.wait_until(cx, group, cx.now + delay_us, lane.place, id, number) end
  else
    call('RPUSH', cx.prefix .. 'group:' .. group.name .. ':jobs:' .. lane.place, unpack(ids))
    queue.lane_has_jobs(cx, group, lane)
  end
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

-- Where the payload starts in a row with its tail at `at`; it extends to the end of the row.
local function payload_start(row, at)
  return at + 1 + (byte(row, at) == 43 and TRACE_BYTES or 0)
end

local function payload_bytes(tail)
  return #tail + 1 - payload_start(tail, 1)
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
  return sub(row, payload_start(row, at)) == sub(tail, payload_start(tail, 1)) and 'e' or 'P', owner
end

-- Adds `jobs` equal jobs from argument `at` on; returns the index after them.
local function enqueue_run(cx, at, group, lane, cost, delay_us, bulk_name, jobs)
  local bulk, closed = open_bulk(cx, group.name, bulk_name)
  cost = cost == '1' and '' or cost
  local head = cx.stamp .. lane.place .. ':' .. cost .. ':' .. (bulk and bulk.number or '')
  local ids, created, known, rows = {}, 0, has_type(cx, lane.type), queue.rows_key(cx, group.name)
  local room =
    min(cx.partition.whole_backlog_max - cx.partition.backlog, cx.partition.group_backlog_max - group.backlog)
  local bytes_room = min(cx.partition.stored_bytes_max - cx.partition.stored_bytes,
    cx.partition.group_stored_bytes_max - group.stored_bytes)
  local is_closed, bytes = closed or not known, 0
  for index = at, at + 2 * jobs - 1, 2 do
    local id, tail = cx.arguments[index], cx.arguments[index + 1]
    local size = payload_bytes(tail)
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
  group.backlog, cx.partition.backlog = group.backlog + created, cx.partition.backlog + created
  if created > 0 then
    queue.add_bytes(cx, group, bytes)
    -- A lane that becomes active does so with its first job, and is scored by the
    -- count at that time.
    local counted = queue.record(group)
    counted.total = counted.total + 1
    if bulk then bulk.total = bulk.total + created end
    if known == 0 then queue.create_type(cx, lane.type) end
    queue.count_jobs(cx, lane.type, created)
    place_jobs(cx, group, lane, delay_us, ids, bulk and bulk.number or '')
    counted.total = counted.total + created - 1
  end
  cx.answered = cx.answered + 1
  cx.receipts[cx.answered] = text(group.backlog)
  return at + 2 * jobs
end

function queue.ops.enqueue(cx)
  kernel.read_partition(cx, FIELDS)
  cx.receipts, cx.answered, cx.known_bulks = {}, 0, {}
  cx.stamp = short_time(cx)

  local at = 2
  while cx.arguments[at] do
    local name, place, cost, delay_us, bulk_name, jobs = unpack(cx.arguments, at, at + 5)
    local group, lane = queue.group_state(cx, name, place)
    at = enqueue_run(cx, at + 6, group, lane, cost, delay_us, bulk_name, tonumber(jobs))
  end
  queue.write_all(cx)
  return {table.concat(cx.receipts), unpack(cx.known_bulks)}
end
