-- Adds jobs: the parts of their rows, and their counts and places.

-- The time in base 36, which is short: a row keeps it as long as its job exists.
local function short_time()
  local letters, rest = {}, now
  for index = 10, 1, -1 do
    local digit = rest % 36
    letters[index], rest = digit < 10 and 48 + digit or 87 + digit, (rest - digit) / 36
  end
  return string.char(unpack(letters))
end
local stamp = short_time()

-- A new job's row up to its tail. The cost is '' for 1.
local function row_head(lane, cost, bulk)
  return stamp .. lane.place .. ':' .. cost .. ':' .. (bulk and bulk.number or '')
end

-- Where the payload starts in a row with its tail at `at`; it extends to the end of the row.
local function payload_start(row, at)
  return at + 1 + (byte(row, at) == 43 and TRACE_BYTES or 0)
end

local function payload_bytes(tail)
  return #tail + 1 - payload_start(tail, 1)
end

local function place_jobs(group, lane, delay_us, ids, number)
  if delay_us ~= '0' then
    for _, id in ipairs(ids) do wait_until(group, now + delay_us, lane.place, id, number) end
  else
    call('RPUSH', prefix .. 'group:' .. group.name .. ':jobs:' .. lane.place, unpack(ids))
    lane_has_jobs(group, lane)
  end
end

-- Counts and places equal jobs whose rows were written, and creates their type if `known` is 0.
local function count_and_place(group, lane, delay_us, ids, bytes, bulk, known)
  local created = #ids
  group.backlog, partition.backlog = group.backlog + created, partition.backlog + created
  add_bytes(group, bytes)
  -- A lane that becomes active does so with its first job, and is scored by the
  -- count at that time.
  local counted = record(group)
  counted.total = counted.total + 1
  if bulk then bulk.total = bulk.total + created end
  if known == 0 then create_type(lane.type) end
  count_jobs(lane.type, created)
  place_jobs(group, lane, delay_us, ids, bulk and bulk.number or '')
  counted.total = counted.total + created - 1
end
