-- The reply of a lease and the entries of `in-flight`. A picked job goes into the reply at once;
-- `lease_picked` writes all leases in a few calls.

-- The first items of the reply are set at the end. `bytes` is the size of the picked payloads.
function queue.begin_picking(cx)
  cx.reply, cx.replied, cx.lanes_served = {'jobs', '', '', 0}, 4, 0
  cx.names, cx.holds, cx.fresh, cx.picked, cx.skips, cx.bytes = {}, {}, {}, 0, 0, 0
end

-- Whether the lease has reached its limit of jobs, bytes or lanes.
function queue.is_full(cx)
  return cx.left == 0 or cx.bytes >= LEASE_BYTES_MAX or cx.lanes_served >= LEASE_LANES_MAX
end

-- The beginning of the reply's part about a lane. Its number of jobs is set when they are known.
function queue.begin_visit(cx, place, group)
  local reply, at = cx.reply, cx.replied
  reply[at + 1], reply[at + 2], cx.replied = place, group.name, at + 4
  return {group = group, at = at, jobs = 0, attempts = false}
end

-- Ends the part about a lane with the attempts of its returned jobs.
function queue.end_visit(cx, visit)
  local reply, at, attempts = cx.reply, visit.at, visit.attempts
  if visit.jobs == 0 then
    reply[at + 1], reply[at + 2], cx.replied = nil, nil, at
    return
  end
  reply[at + 3], reply[at + 4], cx.lanes_served = visit.jobs, attempts and #attempts or 0, cx.lanes_served + 1
  if not attempts then return end
  for index = 1, #attempts do reply[cx.replied + index] = attempts[index] end
  cx.replied = cx.replied + #attempts
end

-- The entry of `in-flight` for a job without a run, up to the bytes of its payload: fence, batch,
-- that it has no run, and its description.
local function hold(cx, place, cost, number)
  return cx.padded .. cx.padded .. 'n:' .. place .. ':' .. cost .. ':' .. number .. ':' .. cx.worker .. ':'
end

-- Picks one runnable job.
function queue.pick(cx, visit, place, id, row, size, cost, number, returned)
  local name, at, picked = visit.group.name .. ':' .. id, cx.replied, cx.picked + 1
  local entry = hold(cx, place, text(cost), number) .. size
  visit.jobs = visit.jobs + 1
  if returned then
    local run = call('HGET', queue.rows_key(cx, visit.group.name), ':' .. id)
    if run then entry = sub(entry, 1, 32) .. 'r' .. sub(entry, 34) end
    visit.attempts = visit.attempts or {}
    visit.attempts[visit.jobs] = (run and match(run, '^:%d:[^:]+:%d+:(%d+)', 34) or 0) + 1
  end
  if number ~= '' then queue.bulk_reached(cx, queue.bulk_state(cx, number), 'RUNNING') end
  cx.reply[at + 1], cx.reply[at + 2], cx.names[picked] = id, row, name
  cx.holds[2 * picked - 1], cx.holds[2 * picked] = name, entry
  cx.replied, cx.picked, cx.bytes = at + 2, picked, cx.bytes + size
end

-- Rows of jobs that cost 1, belong to no bulk action and have no trace are equal between their time
-- and their payload; entries of such jobs that were never leased differ only in the size.
local function plain_kind(cx, place)
  local plain = place .. ':::'
  local kind = {plain = plain, head = 10 + #plain, hold = hold(cx, place, '1', ''), entries = {}}
  cx.fresh[place] = kind
  return kind
end

-- Picks such jobs out of those from `first` to `last`, up to one of another kind; returns their
-- number. This is `pick` for most jobs of most queues.
function queue.pick_plain(cx, visit, place, ids, rows, first, last)
  local kind = cx.fresh[place] or plain_kind(cx, place)
  local plain, head, entries, part = kind.plain, kind.head, kind.entries, visit.group.name .. ':'
  local reply, names, holds, at, picked, bytes = cx.reply, cx.names, cx.holds, cx.replied, cx.picked, cx.bytes
  local size, entry, held = -1, nil, 2 * picked
  for index = first, last do
    local id, row = ids[index], rows[index]
    if not row or bytes >= LEASE_BYTES_MAX or find(row, plain, 11, true) ~= 11 then break end
    if #row - head ~= size then
      size = #row - head
      entry = entries[size] or kind.hold .. size
      entries[size] = entry
    end
    local name = part .. id
    reply[at + 1], reply[at + 2], holds[held + 1], holds[held + 2] = id, row, name, entry
    at, held, picked, bytes = at + 2, held + 2, picked + 1, bytes + size
    names[picked] = name
  end
  local jobs = picked - cx.picked
  visit.jobs, cx.replied, cx.picked, cx.bytes = visit.jobs + jobs, at, picked, bytes
  return jobs
end

-- Writes the leases of all picked jobs, and returns the reply.
function queue.lease_picked(cx, deadline)
  local reply, at, fence = cx.reply, cx.replied, cx.padded
  reply[4] = cx.lanes_served
  for number, bulk in pairs(cx.bulks) do
    if bulk then
      reply[at + 1], reply[at + 2] = number, match(bulk.name, ':(.+)$')
      at = at + 2
    end
  end
  if cx.picked == 0 then return reply end
  call('HSET', cx.prefix .. 'in-flight', unpack(cx.holds))
  call('HSET', cx.prefix .. 'lease:' .. fence, 'left', text(cx.picked), 'names', table.concat(cx.names, '\n'))
  call('ZADD', cx.prefix .. 'deadlines', deadline, fence)
  return reply
end
