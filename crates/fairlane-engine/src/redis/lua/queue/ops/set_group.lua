#!lua flags=allow-oom
-- set_group: changes weight, rate, concurrency and pause of a group, with immediate
-- effect on its backlog.
-- Key: the partition.
local FIELDS = {'sequence', 'classic', 'alpha'}

function queue.ops.set_group(cx, command)
  kernel.read_partition(cx, FIELDS)
  local patch, group, none = command.patch, queue.group_state(cx, command.group), '1:0:0:0:0:0:0'
  local weight, paused, concurrency, base_priority, rate =
    match(group.limits or none, '^(%d+):(%d):(%d+):(-?%d+):(.*)$')
  if command.reset_congestion then
    local known = queue.record(group)
    if known.noted > 0 then call('DEL', queue.history_key(cx, group)) end
    known.throttles, known.since, known.noted, known.backoff = 0, group.done, 0, 0
  end
  local new_weight, new_base = patch.weight and text(patch.weight) or weight,
    patch.base_priority and text(patch.base_priority) or base_priority
  local new_rate = kernel.patched(patch.rate, rate, '0:0:0', kernel.rate_text)
  local limits = table.concat({
    new_weight, kernel.patched_flag(patch.paused, paused),
    kernel.patched(patch.concurrency, concurrency, '0', text), new_base, new_rate,
  }, ':')
  queue.list_settings(cx, group.name, limits ~= none)
  if limits == (group.limits or none) then
    queue.write_all(cx)
    return {settings = queue.group_settings(group)}
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
  return {settings = queue.group_settings(group)}
end
