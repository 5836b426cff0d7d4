-- Token buckets. A bucket is the text `level:at`, a rate the text `count:period_ms:burst`.

-- The rate in units of a bucket, or nil without one.
local function flow_of(rate)
  local count, period_ms, burst = match(rate, '^(%d+):(%d+):(%d+)$')
  if not count or count == '0' then return nil end
  local job_units = MILLI * period_ms * 1000
  return {units_per_us = count * MILLI, job_units = job_units, capacity = burst * job_units}
end

local function refilled(bucket, flow)
  local level, at = match(bucket, '^(%d+):(%d+)$')
  local elapsed_us = min(max(now - at, 0), ceil(flow.capacity / flow.units_per_us))
  return min(level + elapsed_us * flow.units_per_us, flow.capacity)
end

local function slots_in(level, flow)
  return floor(level / flow.job_units)
end

-- When slots for `jobs`, or for half the burst if that is less, are free; at most a park from now.
local function wake_time(level, flow, jobs)
  local burst = floor(flow.capacity / flow.job_units)
  local need = min(jobs, max(floor(burst / 2), 1)) * flow.job_units
  return now + min(ceil(max(need - level, 0) / flow.units_per_us), PARK_US_MAX)
end

local function bucket_text(level)
  return text(level) .. ':' .. text(now)
end

-- Adapts a bucket to a changed rate: equal rates change nothing, otherwise whole jobs carry over.
local function changed_bucket(bucket, from_rate, to_rate)
  if from_rate == to_rate then return bucket end
  local from, to = flow_of(from_rate), flow_of(to_rate)
  if not to then return '0:0' end
  if not from then return bucket_text(to.capacity) end
  local jobs = slots_in(refilled(bucket, from), from)
  return bucket_text(min(jobs * to.job_units, to.capacity))
end
