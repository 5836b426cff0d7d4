#!lua flags=allow-oom,no-writes
-- inspect_congestion: reads the congestion of one group. Read-only.
-- Key: the partition.
local FIELDS = {'classic'}

function queue.ops.inspect_congestion(cx, command)
  local group, settings = queue.group_state(cx, command.group), queue.congestion_settings(cx)
  if call('EXISTS', group.key) == 0 then return nil end
  local known, waiting, speed = queue.record(group), nil, nil
  local view = {
    waiting = 0, speed = 0, backoff_ms = 0, level = 'None', throttles = known.throttles,
    ended = group.done - known.since,
  }
  if settings.congestion_enabled == 0 then return view end
  kernel.read_fields(cx, FIELDS)
  if cx.partition.classic == 1 then
    waiting, speed = known.waiting, queue.group_speed(cx)
  else
    local newest = call('LINDEX', queue.history_key(cx, group), -1)
    waiting, speed = group.backlog, newest and tonumber(match(newest, '^%d+:%d+:(%d+)')) or 0
    if group.flow then
      local count, period_ms = match(group.rate, '^(%d+):(%d+)')
      speed = floor(floor(count * MILLI * 1000 / period_ms) / 1000)
    end
  end
  view.waiting, view.speed, view.backoff_ms = waiting, speed, known.backoff
  view.level = queue.congestion_level(known.backoff, settings.base_backoff_ms)
  return view
end
