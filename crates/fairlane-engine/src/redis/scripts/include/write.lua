-- Writing back what was read and has changed, and waking whom it concerns.
local function write_group(group)
  local changes, count = {}, 0
  local counts = format('%d:%d:%d', group.in_flight, group.backlog, group.seat_parked)
  if counts ~= group.counts then
    changes[1], changes[2], count = 'counts', counts, 2
  end
  for place, lane in pairs(group.lanes) do
    local value = lane_text(lane)
    if value ~= (lane.was or 'I:0:0:0:0:0') then
      changes[count + 1], changes[count + 2] = 'lane:' .. place, value
      count = count + 2
    end
  end
  if group.limits ~= group.limits_was then
    changes[count + 1], changes[count + 2] = 'limits', group.limits
    count = count + 2
  end
  if group.bucket ~= group.bucket_was then
    changes[count + 1], changes[count + 2] = 'bucket', group.bucket
    count = count + 2
  end
  if count > 0 then call('HSET', group.key, unpack(changes)) end
end

local function push_token(name)
  tokens[name] = (tokens[name] or 0) + 1
end

local function write_all()
  for _, group in pairs(groups) do write_group(group) end
  for _, state in pairs(types) do write_type(state) end
  write_partition()
  for name, count in pairs(tokens) do
    local key, pushed = prefix .. 'wake:' .. name, {}
    for index = 1, min(count, TOKENS_MAX) do pushed[index] = '1' end
    if call('RPUSH', key, unpack(pushed)) > TOKENS_MAX then call('LTRIM', key, 0, TOKENS_MAX - 1) end
  end
end
