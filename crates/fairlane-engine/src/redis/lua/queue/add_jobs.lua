-- Adds jobs: the parts of their rows, and their counts and places.

-- The time in base 36, which is short: a row keeps it as long as its job exists.
local function short_time(cx)
  local letters, rest = {}, cx.now
  for index = 10, 1, -1 do
    local digit = rest % 36
    letters[index], rest = digit < 10 and 48 + digit or 87 + digit, (rest - digit) / 36
  end
  return string.char(unpack(letters))
end

-- A new job's row up to its tail. The cost is '' for 1.
function queue.row_head(cx, lane, cost, bulk)
  cx.stamp = cx.stamp or short_time(cx)
  return cx.stamp .. lane.place .. ':' .. cost .. ':' .. (bulk and bulk.number or '')
end

-- Where the payload starts in a row with its tail at `at`; it extends to the end of the row.
function queue.payload_start(row, at)
  return at + 1 + (byte(row, at) == 43 and TRACE_BYTES or 0)
end

function queue.payload_bytes(tail)
  return #tail + 1 - queue.payload_start(tail, 1)
end

local function place_jobs(cx, group, lane, delay_us, ids, number)
  if delay_us ~= '0' then
    for _, id in ipairs(ids) do queue.wait_until(cx, group, cx.now + delay_us, lane.place, id, number) end
  else
    call('RPUSH', cx.prefix .. 'group:' .. group.name .. ':jobs:' .. lane.place, unpack(ids))
    queue.lane_has_jobs(cx, group, lane)
  end
end

-- Counts and places equal jobs whose rows were written, and creates their type if `known` is 0.
function queue.count_and_place(cx, group, lane, delay_us, ids, bytes, bulk, known)
  local created = #ids
  group.backlog, cx.partition.backlog = group.backlog + created, cx.partition.backlog + created
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
