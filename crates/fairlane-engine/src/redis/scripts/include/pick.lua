-- Taking jobs off lanes. What is picked is kept in arrays and written by `lease_picked` in a few calls.
local visits, picked, names, holds = {}, 0, {}, {}

-- What `in-flight` holds of a job: fence, batch, whether it has been through something, and what it is.
local function hold(fence, known, place, cost, worker)
  return fence .. fence .. known .. ':' .. place .. ':' .. cost .. ':' .. worker
end

-- Picks the first of `elements` up to a quantum of cost; gives jobs and cost. Their ids replace the elements.
local function pick(visit, elements, returned, fence, worker)
  local jobs, cost, place, group_part = 0, 0, visit.place, visit.group.name .. ':'
  local fresh, ids = hold(fence, 'n', place, '1', worker), visit.ids
  while jobs < #elements and cost < QUANTUM do
    local id, job_cost, held = elements[jobs + 1], 1, fresh
    if byte(id, 1) == 58 then
      job_cost, id = match(id, '^:(%d+):(.+)$')
      held = hold(fence, 'n', place, job_cost, worker)
    end
    jobs, cost, picked = jobs + 1, cost + job_cost, picked + 1
    if jobs <= returned then
      local run = call('HGET', rows_key(visit.group.name), ':' .. id)
      if run then held = hold(fence, 'r', place, job_cost, worker) end
      visit.attempts[jobs] = (run and match(run, '^[^:]+:%d:[^:]+:%d+:(%d+)') or 0) + 1
    end
    local name = group_part .. id
    ids[jobs], names[picked] = id, name
    holds[2 * picked - 1], holds[2 * picked] = name, held
  end
  return jobs, cost
end

-- Serves a lane: its returned jobs first, then its backlog. Gives jobs, cost, and whether it is empty now.
local function serve_lane(state, group, lane, most, fence, worker)
  local wanted, returned, elements = min(most, QUANTUM), 0, nil
  local backlog_key = prefix .. 'group:' .. group.name .. ':jobs:' .. lane.place
  local returned_key = lane.returned == '1' and prefix .. 'group:' .. group.name .. ':returned:' .. lane.place
  if returned_key then
    elements = call('LPOP', returned_key, wanted) or {}
    returned = #elements
    for _, element in ipairs(returned < wanted and call('LPOP', backlog_key, wanted - returned) or {}) do
      elements[#elements + 1] = element
    end
  else
    elements = call('LPOP', backlog_key, wanted) or {}
  end
  local visit = {place = lane.place, state = state, group = group, ids = {}, attempts = {}}
  local jobs, cost = pick(visit, elements, returned, fence, worker)
  for index = #elements, jobs + 1, -1 do
    call('LPUSH', index <= returned and returned_key or backlog_key, elements[index])
  end
  visit.jobs = jobs
  visits[#visits + 1] = visit
  if returned_key and call('EXISTS', returned_key) == 0 then lane.returned = '0' end
  local empty = lane.returned == '0' and jobs == #elements and (#elements < wanted or call('LLEN', backlog_key) == 0)
  return jobs, cost, empty
end

-- A name without a job, left by someone else's deletion, must not come back as a stub.
local function drop_stub(visit, name)
  call('HDEL', prefix .. 'in-flight', name)
  visit.group.in_flight, visit.state.in_flight = visit.group.in_flight - 1, visit.state.in_flight - 1
end

-- Writes the leases of all that is picked and appends it to the reply.
local function lease_picked(reply, fence, deadline)
  if picked == 0 then return end
  local count, left = #reply, picked
  call('HSET', prefix .. 'in-flight', unpack(holds))
  for _, visit in ipairs(visits) do
    local ids, group_name = visit.ids, visit.group.name
    local rows = visit.jobs > 0 and call('HMGET', rows_key(group_name), unpack(ids)) or {}
    reply[count + 1], reply[count + 2], reply[count + 3], reply[count + 4] = visit.place, group_name, visit.jobs, #visit.attempts
    count = count + 4
    for index = 1, visit.jobs do
      local row = rows[index]
      reply[count + 1], reply[count + 2] = ids[index], row
      count = count + 2
      if not row then
        drop_stub(visit, group_name .. ':' .. ids[index])
        left = left - 1
      end
    end
    for _, attempt in ipairs(visit.attempts) do
      count = count + 1
      reply[count] = attempt
    end
  end
  if left > 0 then
    call('HSET', prefix .. 'lease:' .. fence, 'left', text(left), 'names', table.concat(names, '\n'))
    call('ZADD', prefix .. 'deadlines', deadline, fence)
  end
end
