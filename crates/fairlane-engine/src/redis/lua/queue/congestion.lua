-- Congestion of groups: the backoff of refused work, and its record. Settings are read when needed.
local FIELDS = {'congestion_enabled', 'base_backoff_ms', 'max_backoff_ms', 'stats_retention_ms', 'global_rps'}

function queue.congestion_settings(cx)
  if not cx.congestion then
    local values = call('HMGET', cx.partition_key, unpack(FIELDS))
    cx.congestion = {}
    for index, field in ipairs(FIELDS) do
      cx.congestion[field] = tonumber(values[index] or NUMBER_DEFAULTS[field])
    end
  end
  return cx.congestion
end

-- The level of a backoff, by how often it exceeds the base.
function queue.congestion_level(backoff_ms, base_ms)
  if backoff_ms <= base_ms then return 'None' end
  local times = floor(backoff_ms / base_ms)
  return times < 3 and 'Low' or times < 10 and 'Moderate' or times < 30 and 'High' or 'Critical'
end

-- Jobs per second of each active group in `classic`: an equal part of the queue's rate, at least 1.
function queue.group_speed(cx)
  local settings = queue.congestion_settings(cx)
  if not settings.speed then
    local active = max(call('ZCARD', cx.prefix .. 'active-groups'), 1)
    settings.speed = max(floor(settings.global_rps / active), 1)
  end
  return settings.speed
end

-- Writes a snapshot of a group that was just refused, at most one per second.
function queue.note_congestion(cx, group, waiting, speed)
  local settings = queue.congestion_settings(cx)
  if settings.congestion_enabled == 0 then return end
  local base = settings.base_backoff_ms
  local backoff = min(base + floor(waiting / speed) * 1000, settings.max_backoff_ms)
  local saved, known, second = floor(backoff / base) - 1, queue.record(group), floor(cx.now / 1000000)
  if saved > 0 then call('HINCRBY', cx.partition_key, 'saved_spins', text(saved)) end
  known.backoff = backoff
  if known.noted == second then return end
  known.noted = second
  local kept, key = floor(settings.stats_retention_ms / 1000), queue.history_key(cx, group)
  if call('RPUSH', key, format('%d:%d:%d:%d', cx.now, waiting, speed, backoff)) > kept then
    call('LTRIM', key, -kept, -1)
  end
end

-- The delay of one more refused job of a group in `classic`, in ms; then waiting jobs, speed and
-- recorded backoff.
function queue.refuse(cx, group)
  local settings = queue.congestion_settings(cx)
  local base, most = settings.base_backoff_ms, settings.max_backoff_ms
  if settings.congestion_enabled == 0 then return base, 0, 0, base end
  local waiting, speed = queue.record(group).waiting + 1, queue.group_speed(cx)
  queue.note_congestion(cx, group, waiting, speed)
  local wanted = base + floor(waiting / speed) * 1000
  if wanted <= most then return wanted, waiting, speed, wanted end
  local part = waiting % 1000000 * 618034 % 1000000
  return most - floor(part * floor(most / 2) / 1000000), waiting, speed, most
end
