#!lua flags=allow-oom,no-writes
-- inspect_congestion: reads the congestion of one group. Read-only.
-- Key: the partition.
-- Arguments: [1] time, [2] group.
-- Replies {waiting, speed, backoff in ms, base in ms, throttles, ended}, or '' if the
-- group does not exist.
local FIELDS = {'classic'}

function queue.ops.inspect_congestion(cx)
  local name = cx.arguments[2]
  local group, settings = queue.group_state(cx, name), queue.congestion_settings(cx)
  if call('EXISTS', group.key) == 0 then return '' end
  local known, waiting, speed = queue.record(group), nil, nil
  if settings.congestion_enabled == 0 then
    return {0, 0, 0, 0, text(known.throttles), text(group.done - known.since)}
  end
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
  return {
    text(waiting), text(speed), text(known.backoff), text(settings.base_backoff_ms), text(known.throttles),
    text(group.done - known.since),
  }
end
