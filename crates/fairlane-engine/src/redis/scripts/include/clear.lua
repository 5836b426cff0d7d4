-- Removal of unrunnable jobs from lists and from the heads of lanes.
local cleared = {}

-- Passes up to `left` members at the head of a list to `take`, until it rejects one. True
-- if none is left.
local function sweep_list(key, take)
  while left > 0 do
    local members, used = call('LRANGE', key, 0, min(left, 100) - 1), 0
    while used < #members and take(members[used + 1]) do used = used + 1 end
    if used > 0 then call('LTRIM', key, used, -1) end
    left = left - used
    if used < #members or #members == 0 then break end
  end
  return call('EXISTS', key) == 0
end

-- Removes a job that must not run; false if it may run.
local function take_out(group, place, id)
  local row = call('HGET', rows_key(group.name), id)
  if not row then return true end
  local cost, number, cancelled = read_row(row)
  local disposition = disposition_of(number, cancelled)
  if disposition == 'run' then return false end
  skip_unrunnable(group, place, id, number, text(cost), disposition, row)
  if disposition ~= 'hold' then dropped = dropped + 1 end
  return true
end

-- Removes unrunnable jobs from the head of a lane. True if the lane is empty then.
local function clear_head(group, lane)
  local part = prefix .. 'group:' .. group.name
  local function take_id(id)
    return take_out(group, lane.place, id)
  end
  if lane.returned == '1' and sweep_list(part .. ':returned:' .. lane.place, take_id) then lane.returned = '0' end
  return lane.returned == '0' and sweep_list(part .. ':jobs:' .. lane.place, take_id)
end

-- Clears the heads of a group's lanes, once. An empty lane stays in its order until a
-- lease visits it.
local function clear_heads(group)
  if cleared[group] then return end
  cleared[group] = true
  for _, place in ipairs(places_of(group)) do
    local _, lane = group_state(group.name, place)
    clear_head(group, lane)
  end
end

-- Whether the first job of a lane that is not empty may run.
local function is_runnable(group, lane)
  local part = prefix .. 'group:' .. group.name
  local id = call('LINDEX', part .. (lane.returned == '1' and ':returned:' or ':jobs:') .. lane.place, 0)
  local row = call('HGET', rows_key(group.name), id)
  local _, number, cancelled = read_row(row or '')
  return row and disposition_of(number, cancelled) == 'run'
end

-- Clears the heads of lanes that left their order for it. A lane returns to its order with its
-- first runnable job. A lane that exceeds the remaining budget goes to the end of the list.
local function clear_lanes()
  for _, member in ipairs(call('ZRANGE', clearing, 0, SWEEP_LANES_MAX - 1)) do
    local place, name = match(member, '^(%d:[^:]+):(.+)$')
    local group, lane = group_state(name, place)
    local empty = clear_head(group, lane)
    if not empty and not is_runnable(group, lane) then
      lane.park = now
      return call('ZADD', clearing, text(now), member)
    end
    call('ZREM', clearing, member)
    lane.standing, lane.park = 'I', 0
    if not empty then
      enter_order(group, lane, false)
      push_token(lane.type)
    end
  end
end
