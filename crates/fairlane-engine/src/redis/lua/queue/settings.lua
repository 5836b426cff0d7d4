-- The queue's settings: as fields of the partition, and as core has them.
local CONGESTION = {base_backoff_ms = true, max_backoff_ms = true, stats_retention_ms = true}

-- The fields of the partition for settings.
function queue.settings_fields(settings)
  local fields = {
    classic = settings.discipline == 'Classic' and 1 or 0, strict = settings.levels == 'Strict' and 1 or 0,
    congestion_enabled = settings.congestion.enabled and 1 or 0, rate = kernel.rate_text(settings.rate),
  }
  for _, part in ipairs({settings, settings.congestion}) do
    for name, value in pairs(part) do
      if type(value) == 'number' then fields[name] = value end
    end
  end
  return fields
end

-- Reads the settings, and other fields of the partition.
function queue.read_settings(cx, fields)
  fields[#fields + 1] = 'rate'
  for name in pairs(NUMBER_DEFAULTS) do fields[#fields + 1] = name end
  kernel.read_fields(cx, fields)
  local stored = cx.partition
  local settings = {
    discipline = stored.classic == 1 and 'Classic' or 'Share', rate = kernel.rate_of(stored.rate),
    levels = stored.strict == 1 and 'Strict' or 'Weighted',
    congestion = {enabled = stored.congestion_enabled == 1},
  }
  for name in pairs(NUMBER_DEFAULTS) do
    local part = CONGESTION[name] and settings.congestion or settings
    part[name] = stored[name]
  end
  return settings
end
