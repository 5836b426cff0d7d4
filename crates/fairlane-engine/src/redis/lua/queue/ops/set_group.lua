#!lua flags=allow-oom
-- set_group: changes weight, rate, concurrency and pause of a group, with immediate
-- effect on its backlog.
-- Key: the partition.
-- Arguments: [1] time, [2] group, [3] weight, [4] paused, [5] concurrency (0 none), [6] rate (0:0:0
-- none), [7] base priority; '' leaves as is. [8] 1 forgets its congestion record.
-- Replies the limits after the change: weight:paused:concurrency:base
-- priority:count:period_ms:burst.
local FIELDS = {'sequence', 'classic', 'alpha'}

local function patched(cx, index, value)
  return cx.arguments[index] == '' and value or cx.arguments[index]
end

function queue.ops.set_group(cx)
  kernel.read_partition(cx, FIELDS)
  local group, none = queue.group_state(cx, cx.arguments[2]), '1:0:0:0:0:0:0'
  local weight, paused, concurrency, base_priority, rate =
    match(group.limits or none, '^(%d+):(%d):(%d+):(-?%d+):(.*)$')
  if cx.arguments[8] == '1' then
    local known = queue.record(group)
    if known.noted > 0 then call('DEL', queue.history_key(cx, group)) end
    known.throttles, known.since, known.noted, known.backoff = 0, group.done, 0, 0
  end
  local new_weight, new_rate, new_base = patched(cx, 3, weight), patched(cx, 6, rate),
    patched(cx, 7, base_priority)
  local limits =
    table.concat({new_weight, patched(cx, 4, paused), patched(cx, 5, concurrency), new_base, new_rate}, ':')
  if limits == (group.limits or none) then
    queue.write_all(cx)
    return limits
  end

  group.bucket = kernel.changed_bucket(cx, group.bucket or '0:0', rate, new_rate)
  group.limits, group.weight, group.base_priority = limits, tonumber(new_weight), tonumber(new_base)
  if limits == none and not group.was_active then queue.watch_idle(cx, group.name) end
  if new_weight ~= weight then
    for _, place in ipairs(queue.places_of(group)) do
      local _, lane = queue.group_state(cx, group.name, place)
      lane.remainder = min(lane.remainder, 0)
    end
  end
  -- Lanes in order by score move by the difference and keep their time stamp.
  local difference = tonumber(new_base) - tonumber(base_priority)
  if cx.partition.classic == 1 and difference ~= 0 then
    for _, place in ipairs(queue.places_of(group)) do
      local _, lane = queue.group_state(cx, group.name, place)
      local key, member = queue.type_state(cx, lane.type)[lane.level].key,
        format('%016d:%s', lane.park, group.name)
      if lane.standing == 'A' then
        call('ZADD', key, text(call('ZSCORE', key, member) - difference), member)
      end
    end
  end
  queue.wake_lanes_of(cx, group, 'RSP')
  queue.write_all(cx)
  return limits
end
