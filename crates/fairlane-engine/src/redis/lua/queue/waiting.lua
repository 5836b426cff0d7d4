-- Jobs that must not run before a time.

-- Makes a job wait. If it is the first to become due, a worker is woken to hold the timer for it.
function queue.wait_until(cx, group, due, place, id, number)
  local key, member, known = cx.prefix .. 'non-ready-queue',
    queue.placed_name(place, group.name .. ':' .. id, number), queue.record(group)
  known.waiting = known.waiting + 1
  call('ZADD', key, text(due), member)
  if number ~= '' then call('ZADD', cx.prefix .. 'bulk:' .. number .. ':waiting', 0, member) end
  if call('ZRANK', key, member) == 0 then queue.push_token(cx, sub(place, 3)) end
end

-- Adds a job to its lane's returned list, which is served before the backlog.
function queue.return_to_lane(cx, group, lane, id, push)
  call(push, cx.prefix .. 'group:' .. group.name .. ':returned:' .. lane.place, id)
  lane.returned = '1'
  queue.lane_has_jobs(cx, group, lane)
end

-- Splits a placed name: the group, its lane, the id, and the number of its bulk action or ''.
function queue.placed(cx, member)
  local place, name, id, number = match(member, '^(%d:[^:]+):([^:]+):([^:]+):?(%d*)$')
  local group, lane = queue.group_state(cx, name, place)
  return group, lane, id, number
end

-- Updates the counts for a job that was removed from the waiting jobs, by its placed name.
function queue.waits_no_more(cx, group, number, member)
  local known = queue.record(group)
  known.waiting = known.waiting - 1
  if number ~= '' then call('ZREM', cx.prefix .. 'bulk:' .. number .. ':waiting', member) end
end

-- Moves up to `most` due jobs to the tail of their lanes' returned lists.
function queue.promote_due(cx, most)
  local key = cx.prefix .. 'non-ready-queue'
  local due = call('ZRANGE', key, '-inf', text(cx.now), 'BYSCORE', 'LIMIT', 0, most)
  if #due == 0 then return 0 end
  call('ZREM', key, unpack(due))
  for _, member in ipairs(due) do
    local group, lane, id, number = queue.placed(cx, member)
    queue.waits_no_more(cx, group, number, member)
    queue.return_to_lane(cx, group, lane, id, 'RPUSH')
  end
  return #due
end

-- The score of the first member, or nil.
function queue.first_score(cx, key)
  local first = call('ZRANGE', cx.prefix .. key, 0, 0, 'WITHSCORES')
  return first[2] and tonumber(first[2])
end
