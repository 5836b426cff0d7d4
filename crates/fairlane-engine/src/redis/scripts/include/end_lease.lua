-- Shared by settle, reclaim and extend: the entries of `in-flight`, and the place of a job
-- after its lease.
local touched, touched_groups, touched_types, batches_left = {}, {}, {}, {}

-- An entry of `in-flight` as a table, and the bytes of its payload; most jobs of a batch
-- share their table.
local parsed = {}
local function parse_hold(entry)
  local value, bytes = match(entry, '^(.*):(%d+)$')
  local held = parsed[value]
  if not held then
    local known, place, cost, bulk, worker = match(value, '^(%a):(%d:[^:]+):(%d+):(%d*):(.+)$', 33)
    held = {
      fence = sub(value, 1, 16), batch = sub(value, 17, 32), known = string.lower(known), place = place,
      type = sub(place, 3), cost = cost, bulk = bulk, worker = worker, cancelled = known == 'N' or known == 'R',
    }
    parsed[value] = held
  end
  return held, tonumber(bytes)
end

-- Subtracts `jobs` ended leases from their batch and frees their seats.
local function end_leases(group, state, held, jobs)
  group.in_flight, state.in_flight = group.in_flight - jobs, state.in_flight - jobs
  batches_left[held.fence] = (batches_left[held.fence] or 0) + jobs
  if held.batch ~= held.fence then batches_left[held.batch] = (batches_left[held.batch] or 0) + jobs end
  if not touched[group] then
    touched[group] = true
    touched_groups[#touched_groups + 1] = group
  end
  if not touched[state] then
    touched[state] = true
    touched_types[#touched_types + 1] = state
  end
end

-- Removes batches without jobs.
local function leave_batches()
  for batch, jobs in pairs(batches_left) do
    local key = prefix .. 'lease:' .. batch
    if call('HINCRBY', key, 'left', -jobs) <= 0 then
      call('DEL', key)
      call('ZREM', prefix .. 'deadlines', batch)
    end
  end
end

local function wake_for_freed_seats()
  for _, group in ipairs(touched_groups) do
    if group.seat_parked > 0 then wake_lanes_of(group, 'S') end
  end
  for _, state in ipairs(touched_types) do
    if state.concurrency > 0 and (is_active(state) or call('EXISTS', prefix .. 'ready-queue:' .. state.name) == 1) then
      push_token(state.name)
    end
  end
end

-- A run: `state settled-fence settled-at :place:cost:attempts:throttles:losses:worker:note`,
-- the first three at fixed width. Returns the history of a job with a payload of this many
-- bytes, as a table.
local function read_run(held, payload_bytes, group_name, id)
  local run = held.known == 'r' and call('HGET', rows_key(group_name), ':' .. id)
  if not run then
    return {settled = ZEROS, attempts = 0, throttles = 0, losses = 0, note = '', note_bytes = 0, payload_bytes = payload_bytes}
  end
  local attempts, throttles, losses, note = match(run, '^:%d:[^:]+:%d+:(%d+):(%d+):(%d+):[^:]*:(.*)$', 34)
  return {
    settled = sub(run, 2, 33), attempts = tonumber(attempts), throttles = tonumber(throttles), losses = tonumber(losses),
    note = note, note_bytes = #note, payload_bytes = payload_bytes,
  }
end

local function run_text(state, held, run)
  return state .. run.settled .. ':' .. held.place .. ':' .. held.cost .. ':' .. run.attempts .. ':' .. run.throttles
    .. ':' .. run.losses .. ':' .. held.worker .. ':' .. run.note
end

-- Whether a job was cancelled, or is dropped by its bulk action, when its lease ends.
local function is_unwanted(held)
  return held.cancelled or disposition_of(held.bulk, false) == 'drop'
end

-- Ends a job after its lease; returns its run.
local function end_job(group, id, held, run, how)
  count_ends(group, held.bulk, how, 1, run.throttles)
  file_end(group, id, held.bulk, how == 'failed', run.payload_bytes + #run.note)
  add_bytes(group, #run.note - run.note_bytes)
  if how ~= 'failed' then count_jobs(held.type, -1) end
  return run_text(how == 'succeeded' and 'C' or how == 'failed' and 'F' or 'X', held, run)
end

-- Makes a job wait after its lease; returns its run.
local function wait_again(group, held, id, run, delay_us)
  group.backlog, partition.backlog = group.backlog + 1, partition.backlog + 1
  wait_until(group, now + delay_us, held.place, id, held.bulk)
  add_bytes(group, #run.note - run.note_bytes)
  return run_text('N', held, run)
end

-- The delay of a refused or lost job in `classic`, which returns through congestion control; in µs.
local function congestion_delay(group, unwanted)
  return not unwanted and partition.classic == 1 and refuse(group) * 1000 or 0
end
