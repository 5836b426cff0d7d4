#!lua flags=allow-oom,no-writes
-- inspect_congestion: reads the congestion of one group. Read-only.
-- KEYS[1] the partition.
-- ARGV[1] time, [2] group.
-- Replies {waiting, speed, backoff in ms, base in ms, throttles, ended}, or '' if the
-- group does not exist.
--@include base
--@include rate
--@include lane
--@include write
--@include order
--@include waiting
--@include downstream
--@include bulk
--@include congestion
--@include views
local name = ARGV[2]
local group, settings = group_state(name), congestion_settings()
if call('EXISTS', group.key) == 0 then return '' end
local known, waiting, speed = record(group), nil, nil
if settings.congestion_enabled == 0 then return {0, 0, 0, 0, text(known.throttles), text(group.done - known.since)} end
read_fields({'classic'})
if partition.classic == 1 then
  waiting, speed = known.waiting, group_speed()
else
  local newest = call('LINDEX', history_key(group), -1)
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
