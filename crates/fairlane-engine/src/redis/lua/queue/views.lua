-- Views of a job, a group and a type.

-- Name and course of a bulk action; one that no longer exists has no name and drops its jobs.
local function bulk_of(cx, number)
  if number == '' then return '', '' end
  cx.bulks_seen = cx.bulks_seen or {}
  local seen = cx.bulks_seen[number]
  if not seen then
    local full_name, course = unpack(call('HMGET', cx.prefix .. 'bulk:' .. number, 'name', 'course'))
    seen = full_name and {match(full_name, ':(.+)$'), course or ''} or {'', 'drop'}
    cx.bulks_seen[number] = seen
  end
  return seen[1], seen[2]
end

-- A row without its payload, but with its trace.
function queue.head_of(row)
  local head = match(row, '^X?..........%d:[^:]+:%d*:%d*[:+]')
  return byte(head, -1) == 43 and sub(row, 1, #head + TRACE_BYTES) or head
end

-- {row, run or '', due time or '', entry of `in-flight` or '', deadline or '', its bulk action or
-- '', the course of that or '', whether it is ready (0 1)}.
function queue.view_line(cx, row, run, due, held, deadline, ready)
  local bulk, course = bulk_of(cx, match(row, '^X?..........%d:[^:]+:%d*:(%d*)[:+]'))
  return {row, run or '', due or '', held or '', deadline or '', bulk, course, ready and 1 or 0}
end

-- The line of a job wherever it is, or '' if it does not exist.
function queue.view_job(cx, name)
  local group, id = match(name, '^([^:]+):(.+)$')
  local row, run = unpack(call('HMGET', queue.rows_key(cx, group), id, ':' .. id))
  if not row then return '' end
  local place, number = match(row, '^X?..........(%d:[^:]+):%d*:(%d*)[:+]')
  local member = queue.placed_name(place, name, number)
  local due = call('ZSCORE', cx.prefix .. 'non-ready-queue', member)
  local held = call('HGET', cx.prefix .. 'in-flight', name)
  local deadline = held and call('ZSCORE', cx.prefix .. 'deadlines', sub(held, 17, 32))
  local ready = call('LPOS', cx.prefix .. 'ready-queue:' .. sub(place, 3), member)
  due, deadline = due and text(tonumber(due)), deadline and text(tonumber(deadline))
  return queue.view_line(cx, row, run, due, held, deadline, ready)
end

-- The limits of a group, or the defaults.
function queue.limits_text(group)
  return group.limits or '1:0:0:0:0:0:0'
end

-- {limits, backlog, in flight, waiting, jobs of its run, ended jobs of its run, stored bytes, then
-- per lane with jobs: place, standing, park, backlog, returned}, or '' if the group does not exist.
function queue.view_group(cx, name)
  local fields = call('HKEYS', cx.prefix .. 'group:' .. name .. ':meta')
  if #fields == 0 then return '' end
  local group, places = queue.group_state(cx, name), {}
  local known = queue.record(group)
  local reply = {
    queue.limits_text(group), text(group.backlog), text(group.in_flight), text(known.waiting),
    text(known.total), text(group.done), text(group.stored_bytes),
  }
  for _, field in ipairs(fields) do
    if sub(field, 1, 5) == 'lane:' then places[#places + 1] = sub(field, 6) end
  end
  table.sort(places, precedes)
  for _, place in ipairs(places) do
    local _, lane = queue.group_state(cx, name, place)
    local backlog = call('LLEN', cx.prefix .. 'group:' .. name .. ':jobs:' .. place)
    local returned = call('LLEN', cx.prefix .. 'group:' .. name .. ':returned:' .. place)
    if backlog + returned > 0 then
      for _, item in ipairs({place, lane.standing, text(lane.park), backlog, returned}) do
        reply[#reply + 1] = item
      end
    end
  end
  return reply
end

-- {paused:concurrency:dead_at:rate, in flight, active ×3, rate in thousandths per second or '',
-- closed until or '', responses of the last second, last requested at or '', ready}. A type that
-- was removed has the view of a new one.
function queue.view_type(cx, name)
  local state = queue.type_state(cx, name)
  local milli, lately = queue.rate_milli(cx, state), queue.answered_lately(cx, state)
  return {
    state.limits == '' and '0:0:0:0:0:0' or state.limits, text(state.in_flight), state[0].active,
    state[1].active, state[2].active, milli and text(milli) or '',
    state.closed_until > cx.now and text(state.closed_until) or '', text(lately),
    state.asked_at > 0 and text(state.asked_at) or '', call('LLEN', cx.prefix .. 'ready-queue:' .. name),
  }
end
