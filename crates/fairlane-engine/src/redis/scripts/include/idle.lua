-- Groups that have nothing left are forgotten, once that makes no difference to them or to others.

-- Whether a lane would come into its order as a new one does.
local function is_lane_forgettable(lane)
  local state = type_state(lane.type)
  local order = state[lane.level]
  local is_void = not state.was[13] or partition.classic == 1 or lane.epoch ~= order.epoch
  local is_passed = lane.remainder == 0 and lane.tag + CREDIT * UNITS <= order.virtual_time
  return lane.standing == 'I' and (is_void or is_passed)
end

local function is_forgettable(group)
  local second = match(call('HGET', group.key, 'window') or '0:0', '^(%d+)')
  if tonumber(second) == floor(now / 1000000) then return false end
  if call('EXISTS', rows_key(group.name), prefix .. 'group:' .. group.name .. ':bulks') > 0 then return false end
  for _, place in ipairs(places_of(group)) do
    local _, lane = group_state(group.name, place)
    if not is_lane_forgettable(lane) then return false end
  end
  return true
end

-- Looks at groups whose time has come; gives how many were forgotten.
local function forget_idle_groups()
  local key, forgotten = prefix .. 'idle-groups', 0
  for _, name in ipairs(call('ZRANGE', key, '-inf', text(now), 'BYSCORE', 'LIMIT', 0, SWEEP_GROUPS_MAX)) do
    local group = group_state(name)
    local has_jobs = group.was_active or group.in_flight + group.backlog > 0
    if has_jobs or (group.limits or '1:0:0:0:0:0:0') ~= '1:0:0:0:0:0:0' then
      call('ZREM', key, name)
    elseif is_forgettable(group) then
      call('ZREM', key, name)
      call('DEL', group.key)
      -- What this sweep has removed of it is not subtracted any more: that would write its row anew.
      groups[name], bytes_removed[name], forgotten = nil, nil, forgotten + 1
    else
      call('ZADD', key, text(now + GROUP_IDLE_US), name)
    end
  end
  return forgotten
end
