-- Jobs that must not run before a time.

-- Makes a job wait. If it is the first to become due, a worker is woken to hold the timer for it.
local function wait_until(group, due, place, id, number)
  local key, member, known = prefix .. 'non-ready-queue', placed_name(place, group.name .. ':' .. id, number), record(group)
  known.waiting = known.waiting + 1
  call('ZADD', key, text(due), member)
  if number ~= '' then call('ZADD', prefix .. 'bulk:' .. number .. ':waiting', 0, member) end
  if call('ZRANK', key, member) == 0 then push_token(sub(place, 3)) end
end

-- Adds a job to its lane's returned list, which is served before the backlog.
local function return_to_lane(group, lane, id, push)
  call(push, prefix .. 'group:' .. group.name .. ':returned:' .. lane.place, id)
  lane.returned = '1'
  lane_has_jobs(group, lane)
end

-- Splits a placed name: the group, its lane, the id, and the number of its bulk action or ''.
local function placed(member)
  local place, name, id, number = match(member, '^(%d:[^:]+):([^:]+):([^:]+):?(%d*)$')
  local group, lane = group_state(name, place)
  return group, lane, id, number
end

-- Updates the counts for a job that was removed from the waiting jobs, by its placed name.
local function waits_no_more(group, number, member)
  local known = record(group)
  known.waiting = known.waiting - 1
  if number ~= '' then call('ZREM', prefix .. 'bulk:' .. number .. ':waiting', member) end
end

-- Moves up to `most` due jobs to the tail of their lanes' returned lists.
local function promote_due(most)
  local key = prefix .. 'non-ready-queue'
  local due = call('ZRANGE', key, '-inf', text(now), 'BYSCORE', 'LIMIT', 0, most)
  if #due == 0 then return 0 end
  call('ZREM', key, unpack(due))
  for _, member in ipairs(due) do
    local group, lane, id, number = placed(member)
    waits_no_more(group, number, member)
    return_to_lane(group, lane, id, 'RPUSH')
  end
  return #due
end

-- The score of the first member, or nil.
local function first_score(key)
  local first = call('ZRANGE', prefix .. key, 0, 0, 'WITHSCORES')
  return first[2] and tonumber(first[2])
end
