-- Picks jobs from lanes. Picked jobs are kept in arrays, and `lease_picked` writes them in a few
-- calls; `bytes` is the size of their payloads.

function queue.begin_picking(cx)
  cx.visits, cx.names, cx.holds, cx.picked, cx.skips, cx.bytes = {}, {}, {}, 0, 0, 0
end

-- The entry of `in-flight` for a job: fence, batch, whether it has a run, and its description.
-- `pick` appends the bytes of its payload.
function queue.hold(fence, known, place, cost, number, worker)
  return fence .. fence .. known .. ':' .. place .. ':' .. cost .. ':' .. number .. ':' .. worker
end

function queue.begin_visit(cx, place, state, group)
  local visit = {place = place, state = state, group = group, ids = {}, rows = {}, attempts = {}, jobs = 0}
  cx.visits[#cx.visits + 1] = visit
  return visit
end

-- Picks one runnable job. `fresh` is the entry for a job of the most frequent kind.
function queue.pick(cx, visit, id, row, size, held, returned)
  local name, jobs = visit.group.name .. ':' .. id, visit.jobs + 1
  cx.picked, cx.bytes, visit.jobs = cx.picked + 1, cx.bytes + size, jobs
  if returned then
    local run = call('HGET', queue.rows_key(cx, visit.group.name), ':' .. id)
    if run then held = sub(held, 1, 32) .. 'r' .. sub(held, 34) end
    visit.attempts[jobs] = (run and match(run, '^:%d:[^:]+:%d+:(%d+)', 34) or 0) + 1
  end
  visit.ids[jobs], visit.rows[jobs], cx.names[cx.picked] = id, row, name
  cx.holds[2 * cx.picked - 1], cx.holds[2 * cx.picked] = name, held .. ':' .. size
end

-- Pops up to `wanted` ids from a lane, returned jobs first. Also returns how many of them
-- are returned jobs.
local function pop_ids(lane, backlog_key, returned_key, wanted)
  if lane.returned == '0' then return call('LPOP', backlog_key, wanted) or {}, 0 end
  local ids = call('LPOP', returned_key, wanted) or {}
  local returned = #ids
  if returned < wanted then
    lane.returned = '0'
    for _, id in ipairs(call('LPOP', backlog_key, wanted - returned) or {}) do ids[#ids + 1] = id end
  end
  return ids, returned
end

-- Serves a lane up to a quantum of cost. Returns jobs, cost, whether it is empty now, and whether
-- it is blocked by an unrunnable job after the most skips of one visit.
function queue.serve_lane(cx, state, group, lane, most, fence, worker)
  local part = cx.prefix .. 'group:' .. group.name
  local backlog_key, returned_key = part .. ':jobs:' .. lane.place, part .. ':returned:' .. lane.place
  local jobs, cost, place, drained, left = 0, 0, lane.place, false, 0
  local visit, plain, fresh = queue.begin_visit(cx, place, state, group), place .. ':::',
    queue.hold(fence, 'n', place, '1', '', worker)
  local head, skips_left, blocked = 10 + #plain, min(VISIT_SKIPS_MAX, LEASE_SKIPS_MAX - cx.skips), false
  while jobs < most and cost < QUANTUM and cx.bytes < LEASE_BYTES_MAX and not drained and left == 0 do
    local wanted, used = min(most - jobs, QUANTUM), 0
    local ids, returned = pop_ids(lane, backlog_key, returned_key, wanted)
    local rows = ids[1] and call('HMGET', queue.rows_key(cx, group.name), unpack(ids)) or {}
    while used < #ids and jobs < most and cost < QUANTUM and cx.bytes < LEASE_BYTES_MAX and not blocked do
      used = used + 1
      local id, row = ids[used], rows[used]
      if row and string.find(row, plain, 11, true) == 11 then
        jobs, cost = jobs + 1, cost + 1
        queue.pick(cx, visit, id, row, #row - head, fresh, used <= returned)
      elseif row then
        local job_cost, number, cancelled, size = queue.read_row(row)
        local disposition = queue.disposition_of(cx, number, cancelled)
        if disposition == 'run' then
          jobs, cost = jobs + 1, cost + job_cost
          if number ~= '' then queue.bulk_reached(cx, queue.bulk_state(cx, number), 'RUNNING') end
          queue.pick(cx, visit, id, row, size, queue.hold(fence, 'n', place, text(job_cost), number, worker),
            used <= returned)
        elseif skips_left == 0 then
          used, blocked = used - 1, true
        else
          cx.skips, skips_left = cx.skips + 1, skips_left - 1
          queue.skip_unrunnable(cx, group, place, id, number, text(job_cost), disposition, row)
        end
      end
    end
    for index = #ids, used + 1, -1 do
      call('LPUSH', index <= returned and returned_key or backlog_key, ids[index])
      if index <= returned then lane.returned = '1' end
    end
    left, drained = #ids - used, #ids < wanted
  end
  if lane.returned == '1' and call('EXISTS', returned_key) == 0 then lane.returned = '0' end
  local empty = left == 0 and lane.returned == '0' and (drained or call('LLEN', backlog_key) == 0)
  return jobs, cost, empty, blocked
end

-- Writes the leases of all picked jobs and appends the jobs to the reply.
function queue.lease_picked(cx, reply, fence, deadline)
  local at, shown, count = #reply + 1, 0, #reply + 1
  for number, bulk in pairs(cx.bulks) do
    if bulk then
      reply[count + 1], reply[count + 2] = number, match(bulk.name, ':(.+)$')
      shown, count = shown + 1, count + 2
    end
  end
  reply[at] = shown
  if cx.picked == 0 then return end
  call('HSET', cx.prefix .. 'in-flight', unpack(cx.holds))
  for _, visit in ipairs(cx.visits) do
    if visit.jobs > 0 then
      reply[count + 1], reply[count + 2], reply[count + 3], reply[count + 4] = visit.place, visit.group.name,
        visit.jobs, #visit.attempts
      count = count + 4
      for index = 1, visit.jobs do
        reply[count + 1], reply[count + 2] = visit.ids[index], visit.rows[index]
        count = count + 2
      end
      for _, attempt in ipairs(visit.attempts) do
        count = count + 1
        reply[count] = attempt
      end
    end
  end
  call('HSET', cx.prefix .. 'lease:' .. fence, 'left', text(cx.picked), 'names', table.concat(cx.names, '\n'))
  call('ZADD', cx.prefix .. 'deadlines', deadline, fence)
end
