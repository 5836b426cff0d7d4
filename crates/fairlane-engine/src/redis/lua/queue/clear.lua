-- Removal of unrunnable jobs from lists and from the heads of lanes.

-- Passes up to `left` members at the head of a list to `take`, until it rejects one. True
-- if none is left.
function queue.sweep_list(cx, key, take)
  while cx.left > 0 do
    local members, used = call('LRANGE', key, 0, min(cx.left, 100) - 1), 0
    while used < #members and take(cx, members[used + 1]) do used = used + 1 end
    if used > 0 then call('LTRIM', key, used, -1) end
    cx.left = cx.left - used
    if used < #members or #members == 0 then break end
  end
  return call('EXISTS', key) == 0
end

-- Removes a job that must not run; false if it may run.
function queue.take_out_unrunnable(cx, group, place, id)
  local row = call('HGET', queue.rows_key(cx, group.name), id)
  if not row then return true end
  local cost, number, cancelled = queue.read_row(row)
  local disposition = queue.disposition_of(cx, number, cancelled)
  if disposition == 'run' then return false end
  queue.skip_unrunnable(cx, group, place, id, number, text(cost), disposition, row)
  if disposition ~= 'hold' then cx.dropped = cx.dropped + 1 end
  return true
end

-- Removes unrunnable jobs from the head of a lane. True if the lane is empty then.
local function clear_head(cx, group, lane)
  local part = cx.prefix .. 'group:' .. group.name
  local function take_id(_, id)
    return queue.take_out_unrunnable(cx, group, lane.place, id)
  end
  if lane.returned == '1' and queue.sweep_list(cx, part .. ':returned:' .. lane.place, take_id) then
    lane.returned = '0'
  end
  return lane.returned == '0' and queue.sweep_list(cx, part .. ':jobs:' .. lane.place, take_id)
end

-- Clears the heads of a group's lanes, once. An empty lane stays in its order until a
-- lease visits it.
function queue.clear_heads(cx, group)
  if cx.cleared[group] then return end
  cx.cleared[group] = true
  for _, place in ipairs(queue.places_of(group)) do
    local _, lane = queue.group_state(cx, group.name, place)
    clear_head(cx, group, lane)
  end
end

-- Whether the first job of a lane that is not empty may run.
local function is_runnable(cx, group, lane)
  local part = cx.prefix .. 'group:' .. group.name
  local id = call('LINDEX', part .. (lane.returned == '1' and ':returned:' or ':jobs:') .. lane.place, 0)
  local row = call('HGET', queue.rows_key(cx, group.name), id)
  local _, number, cancelled = queue.read_row(row or '')
  return row and queue.disposition_of(cx, number, cancelled) == 'run'
end

-- Clears the heads of lanes that left their order for it. A lane returns to its order with its
-- first runnable job. A lane that exceeds the remaining budget goes to the end of the list.
function queue.clear_lanes(cx)
  for _, member in ipairs(call('ZRANGE', cx.clearing, 0, SWEEP_LANES_MAX - 1)) do
    local place, name = match(member, '^(%d:[^:]+):(.+)$')
    local group, lane = queue.group_state(cx, name, place)
    local empty = clear_head(cx, group, lane)
    if not empty and not is_runnable(cx, group, lane) then
      lane.park = cx.now
      return call('ZADD', cx.clearing, text(cx.now), member)
    end
    call('ZREM', cx.clearing, member)
    lane.standing, lane.park = 'I', 0
    if not empty then
      queue.enter_order(cx, group, lane, false)
      queue.push_token(cx, lane.type)
    end
  end
end
