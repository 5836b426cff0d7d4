-- Picks jobs from a lane.

-- Pops up to `wanted` ids from a lane, returned jobs first. Also returns how many of them
-- are returned jobs.
local function pop_ids(lane, backlog_key, returned_key, wanted)
  local ids = call('LPOP', returned_key, wanted) or {}
  local returned = #ids
  if returned < wanted then
    lane.returned = '0'
    for _, id in ipairs(call('LPOP', backlog_key, wanted - returned) or {}) do ids[#ids + 1] = id end
  end
  return ids, returned
end

-- The number of ids to pop next. The only lane gives more of them once its payloads were small.
local function ids_wanted(cx, jobs, most)
  local wanted = QUANTUM
  if cx.is_alone and jobs > 0 and cx.bytes <= jobs * SMALL_PAYLOAD_BYTES then wanted = 4 * QUANTUM end
  return min(most - jobs, wanted)
end

-- Serves a lane up to a quantum of cost, or the only lane up to `most` jobs. Returns jobs, whether it
-- is empty now, and whether it is blocked by an unrunnable job after the most skips of one visit.
function queue.serve_lane(cx, state, group, lane, most)
  local prefix, name, place, returned_key = cx.prefix, group.name, lane.place, nil
  local backlog_key, rows_key = prefix .. 'group:' .. name .. ':jobs:' .. place, queue.rows_key(cx, name)
  if lane.returned == '1' then returned_key = prefix .. 'group:' .. name .. ':returned:' .. place end
  local visit, jobs, charged, cost = queue.begin_visit(cx, place, group), 0, 0, 0
  local drained, left, blocked, done = false, 0, false, false
  local skips_left = min(VISIT_SKIPS_MAX, LEASE_SKIPS_MAX - cx.skips)
  while jobs < most and cx.bytes < LEASE_BYTES_MAX and not drained and left == 0 and not done do
    local wanted, used = ids_wanted(cx, jobs, most), 0
    local ids, returned
    if lane.returned == '0' then
      ids, returned = call('LPOP', backlog_key, wanted) or {}, 0
    else
      ids, returned = pop_ids(lane, backlog_key, returned_key, wanted)
    end
    local count = #ids
    local rows = count > 0 and call('HMGET', rows_key, unpack(ids))
    while used < count and cx.bytes < LEASE_BYTES_MAX and not blocked do
      if cost >= QUANTUM then
        done = not cx.is_alone
        if done then break end
        queue.charge_lane(state, group, lane, jobs - charged, cost)
        charged, cost = jobs, 0
      end
      local plain = used >= returned
        and queue.pick_plain(cx, visit, place, ids, rows, used + 1, min(count, used + QUANTUM - cost)) or 0
      used, jobs, cost = used + plain, jobs + plain, cost + plain
      if plain == 0 then
        used = used + 1
        local id, row = ids[used], rows[used]
        local job_cost, number, cancelled, size = queue.read_row(row or '')
        local disposition = row and queue.disposition_of(cx, number, cancelled)
        if disposition == 'run' then
          jobs, cost = jobs + 1, cost + job_cost
          queue.pick(cx, visit, place, id, row, size, job_cost, number, used <= returned)
        elseif disposition and skips_left == 0 then
          used, blocked = used - 1, true
        elseif disposition then
          cx.skips, skips_left = cx.skips + 1, skips_left - 1
          queue.skip_unrunnable(cx, group, place, id, number, text(job_cost), disposition, row)
        end
      end
    end
    for index = count, used + 1, -1 do
      call('LPUSH', index <= returned and returned_key or backlog_key, ids[index])
      if index <= returned then lane.returned = '1' end
    end
    left, drained = count - used, count < wanted
    done = done or cost >= QUANTUM and not cx.is_alone
  end
  if jobs > charged then queue.charge_lane(state, group, lane, jobs - charged, cost) end
  queue.end_visit(cx, visit)
  if lane.returned == '1' and call('EXISTS', returned_key) == 0 then lane.returned = '0' end
  local empty = left == 0 and lane.returned == '0' and (drained or call('LLEN', backlog_key) == 0)
  return jobs, empty, blocked
end
