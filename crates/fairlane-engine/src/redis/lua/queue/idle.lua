-- Idle groups are forgotten once that makes no difference to them or to others.

-- Whether the lane would enter its order at the same position as a new lane.
local function is_lane_forgettable(cx, lane)
  local state = queue.type_state(cx, lane.type)
  local order = state[lane.level]
  local is_void = not state.was[13] or cx.partition.classic == 1 or lane.epoch ~= order.epoch
  local is_passed = lane.remainder == 0 and lane.tag + CREDIT * UNITS <= order.virtual_time
  return lane.standing == 'I' and (is_void or is_passed)
end

local function is_forgettable(cx, group)
  local second = match(call('HGET', group.key, 'window') or '0:0', '^(%d+)')
  if tonumber(second) == floor(cx.now / 1000000) then return false end
  if call('EXISTS', queue.rows_key(cx, group.name), cx.prefix .. 'group:' .. group.name .. ':bulks') > 0 then
    return false
  end
  for _, place in ipairs(queue.places_of(group)) do
    local _, lane = queue.group_state(cx, group.name, place)
    if not is_lane_forgettable(cx, lane) then return false end
  end
  return true
end

-- Checks the idle groups that are due; returns the number of forgotten ones.
function queue.forget_idle_groups(cx)
  local key, forgotten = cx.prefix .. 'idle-groups', 0
  for _, name in ipairs(call('ZRANGE', key, '-inf', text(cx.now), 'BYSCORE', 'LIMIT', 0, SWEEP_GROUPS_MAX)) do
    local group = queue.group_state(cx, name)
    local has_jobs = group.was_active or group.in_flight + group.backlog > 0
    if has_jobs or (group.limits or '1:0:0:0:0:0:0') ~= '1:0:0:0:0:0:0' then
      call('ZREM', key, name)
    elseif is_forgettable(cx, group) then
      call('ZREM', key, name)
      call('DEL', group.key)
      -- Bytes removed by this sweep must not be subtracted any more: that would
      -- create its row again.
      cx.groups[name], cx.bytes_removed[name], forgotten = nil, nil, forgotten + 1
    else
      call('ZADD', key, text(cx.now + GROUP_IDLE_US), name)
    end
  end
  return forgotten
end
