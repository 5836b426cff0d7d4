#!lua
-- enqueue: adds jobs, each at most once. Refused completely, before any effect, if memory is full.
-- KEYS[1] the partition.
-- ARGV[1] time, then runs of equal jobs: group, place (level:type), cost, delay in µs, bulk action
-- ('' none), number of jobs, then per job its id and the tail of its row: ':' and the payload, or
-- '+', the trace in TRACE_BYTES bytes and the payload.
-- A row is the time in base 36, level:type:cost ('' for 1):number of the bulk action
-- ('' none), tail.
-- Replies {per run a letter per job and then the backlog of its group, all in one text; then per
-- existing job the name of its bulk action or ''}: c created, e exists, B T L C P exists with
-- another bulk action, type, level, cost or payload, s bulk action sealed, u bulk action unknown, g
-- group full, w queue full, G W the same in bytes, t too many types.
--@include base
--@include rate
--@include lane
--@include write
--@include order
--@include waiting
--@include bytes
--@include bulk
--@include add_jobs
read_partition({'sequence', 'backlog', 'classic', 'alpha', 'epochs', 'group_backlog_max', 'whole_backlog_max',
  'stored_bytes', 'group_stored_bytes_max', 'stored_bytes_max'})
local receipts, answered, known_bulks = {}, 0, {}

-- Why a new job of this size is refused after `jobs` and `bytes` of its run were accepted.
local function refused(group, closed, size, jobs, bytes)
  if closed then return closed end
  if partition.backlog + jobs >= partition.whole_backlog_max then return 'w' end
  if group.backlog + jobs >= partition.group_backlog_max then return 'g' end
  if size > 0 and partition.stored_bytes + bytes >= partition.stored_bytes_max then return 'W' end
  if size > 0 and group.stored_bytes + bytes >= partition.group_stored_bytes_max then return 'G' end
  return 't'
end

-- The bulk action that jobs are added to, or nil; then why it accepts none, if so.
local function open_bulk(group_name, name)
  if name == '' then return nil end
  local number = bulk_number(group_name, name)
  local bulk = number and bulk_state(number)
  if not bulk then return nil, 'u' end
  if bulk.sealed == 1 or is_final(bulk) then return nil, 's' end
  return bulk
end

-- The letter for an existing job, and the name of its bulk action or ''. Trace and delay are not
-- compared. The name of a bulk action that no longer exists is unknown.
local function compared(row, lane, cost, bulk_name, tail)
  local place, row_cost, number, at = match(row, '^X?..........(%d:[^:]+):(%d*):(%d*)()[:+]')
  local bulk = number ~= '' and bulk_state(number)
  local owner = bulk and match(bulk.name, ':(.+)$') or ''
  if owner ~= bulk_name and (bulk or number == '') then return 'B', owner end
  if place ~= lane.place then return sub(place, 3) == lane.type and 'L' or 'T', owner end
  if row_cost ~= cost then return 'C', owner end
  return sub(row, payload_start(row, at)) == sub(tail, payload_start(tail, 1)) and 'e' or 'P', owner
end

-- Adds `jobs` equal jobs from argument `at` on; returns the index after them.
local function enqueue_run(at, group, lane, cost, delay_us, bulk_name, jobs)
  local bulk, closed = open_bulk(group.name, bulk_name)
  cost = cost == '1' and '' or cost
  local head = row_head(lane, cost, bulk)
  local ids, created, known, rows = {}, 0, has_type(lane.type), rows_key(group.name)
  local room = min(partition.whole_backlog_max - partition.backlog, partition.group_backlog_max - group.backlog)
  local bytes_room = min(partition.stored_bytes_max - partition.stored_bytes, partition.group_stored_bytes_max - group.stored_bytes)
  local is_closed, bytes = closed or not known, 0
  for index = at, at + 2 * jobs - 1, 2 do
    local id, tail = ARGV[index], ARGV[index + 1]
    local size = payload_bytes(tail)
    answered = answered + 1
    local is_refused = is_closed or created >= room or size > 0 and bytes >= bytes_room
    if not is_refused and call('HSETNX', rows, id, head .. tail) == 1 then
      created, bytes = created + 1, bytes + size
      ids[created], receipts[answered] = id, 'c'
    else
      local row = call('HGET', rows, id)
      if row then
        receipts[answered], known_bulks[#known_bulks + 1] = compared(row, lane, cost, bulk_name, tail)
      else
        receipts[answered] = refused(group, closed, size, created, bytes)
      end
    end
  end
  if created > 0 then count_and_place(group, lane, delay_us, ids, bytes, bulk, known) end
  answered = answered + 1
  receipts[answered] = text(group.backlog)
  return at + 2 * jobs
end

local at = 2
while ARGV[at] do
  local name, place, cost, delay_us, bulk_name, jobs = unpack(ARGV, at, at + 5)
  local group, lane = group_state(name, place)
  at = enqueue_run(at + 6, group, lane, cost, delay_us, bulk_name, tonumber(jobs))
end
write_all()
return {table.concat(receipts), unpack(known_bulks)}
