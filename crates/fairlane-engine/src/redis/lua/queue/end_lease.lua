-- Shared by settle, reclaim and extend: the entries of `in-flight`, and the place of a job
-- after its lease.

-- Begins an operation on leases: entries of `in-flight` as tables, ended jobs per batch, and the
-- groups and types that they belong to.
function queue.begin_ending(cx)
  cx.entries_parsed, cx.holds_parsed, cx.batches_left = {}, {}, {}
  cx.touched_groups, cx.touched_types = {}, {}
end

-- An entry of `in-flight` as a table, and the bytes of its payload; most jobs of a batch
-- share their table. A reported progress stands at the end, as `@done/total`.
function queue.parse_hold(cx, entry)
  local known = cx.entries_parsed[entry]
  if known then return known.held, known.bytes end
  local value, bytes = match(entry, '^(.*):(%d+)@?[%d/]*$')
  local held = cx.holds_parsed[value]
  if not held then
    local state, place, cost, bulk, worker = match(value, '^(%a):(%d:[^:]+):(%d+):(%d*):(.+)$', 33)
    held = {
      fence = sub(value, 1, 16), batch = sub(value, 17, 32), known = string.lower(state), place = place,
      type = sub(place, 3), cost = cost, bulk = bulk, worker = worker,
      cancelled = state == 'N' or state == 'R',
    }
    cx.holds_parsed[value] = held
  end
  bytes = tonumber(bytes)
  cx.entries_parsed[entry] = {held = held, bytes = bytes}
  return held, bytes
end

-- Subtracts `jobs` ended leases from their batch and frees their seats.
function queue.end_leases(cx, group, state, held, jobs)
  group.in_flight, state.in_flight = group.in_flight - jobs, state.in_flight - jobs
  cx.batches_left[held.fence] = (cx.batches_left[held.fence] or 0) + jobs
  if held.batch ~= held.fence then cx.batches_left[held.batch] = (cx.batches_left[held.batch] or 0) + jobs end
  if not group.is_touched then
    group.is_touched, cx.touched_groups[#cx.touched_groups + 1] = true, group
  end
  if not state.is_touched then
    state.is_touched, cx.touched_types[#cx.touched_types + 1] = true, state
  end
end

-- Removes batches without jobs.
function queue.leave_batches(cx)
  for batch, jobs in pairs(cx.batches_left) do
    local key = cx.prefix .. 'lease:' .. batch
    if call('HINCRBY', key, 'left', -jobs) <= 0 then
      call('DEL', key)
      call('ZREM', cx.prefix .. 'deadlines', batch)
    end
  end
end

function queue.wake_for_freed_seats(cx)
  for _, group in ipairs(cx.touched_groups) do
    if group.seat_parked > 0 then queue.wake_lanes_of(cx, group, 'S') end
  end
  for _, state in ipairs(cx.touched_types) do
    if state.concurrency > 0
      and (queue.is_active(state) or call('EXISTS', cx.prefix .. 'ready-queue:' .. state.name) == 1) then
      queue.push_token(cx, state.name)
    end
  end
end

-- A run: `state settled-fence settled-at :place:cost:attempts:throttles:losses:worker:note`,
-- the first three at fixed width. Returns the history of a job with a payload of this many
-- bytes, as a table.
function queue.read_run(cx, held, payload_bytes, group_name, id)
  local run = held.known == 'r' and call('HGET', queue.rows_key(cx, group_name), ':' .. id)
  if not run then
    return {
      settled = ZEROS, attempts = 0, throttles = 0, losses = 0, note = '', note_bytes = 0,
      payload_bytes = payload_bytes,
    }
  end
  local attempts, throttles, losses, note = match(run, '^:%d:[^:]+:%d+:(%d+):(%d+):(%d+):[^:]*:(.*)$', 34)
  return {
    settled = sub(run, 2, 33), attempts = tonumber(attempts), throttles = tonumber(throttles),
    losses = tonumber(losses), note = note, note_bytes = #note, payload_bytes = payload_bytes,
  }
end

function queue.run_text(state, held, run)
  return state .. run.settled .. ':' .. held.place .. ':' .. held.cost .. ':' .. run.attempts
    .. ':' .. run.throttles .. ':' .. run.losses .. ':' .. held.worker .. ':' .. run.note
end

-- Whether a job was cancelled, or is dropped by its bulk action, when its lease ends.
function queue.is_unwanted(cx, held)
  return held.cancelled or queue.disposition_of(cx, held.bulk, false) == 'drop'
end

-- Ends a job after its lease; returns its run.
function queue.end_job(cx, group, id, held, run, how)
  queue.count_ends(cx, group, held.bulk, how, 1, run.throttles)
  queue.file_end(cx, group, id, held.bulk, how == 'failed', run.payload_bytes + #run.note)
  queue.add_bytes(cx, group, #run.note - run.note_bytes)
  if how ~= 'failed' then queue.count_jobs(cx, held.type, -1) end
  return queue.run_text(how == 'succeeded' and 'C' or how == 'failed' and 'F' or 'X', held, run)
end

-- Makes a job wait after its lease; returns its run.
function queue.wait_again(cx, group, held, id, run, delay_us)
  group.backlog, cx.partition.backlog = group.backlog + 1, cx.partition.backlog + 1
  queue.wait_until(cx, group, cx.now + delay_us, held.place, id, held.bulk)
  queue.add_bytes(cx, group, #run.note - run.note_bytes)
  return queue.run_text('N', held, run)
end

-- The delay of a refused or lost job in `classic`, which returns through congestion control; in µs.
function queue.congestion_delay(cx, group, unwanted)
  return not unwanted and cx.partition.classic == 1 and queue.refuse(cx, group) * 1000 or 0
end
