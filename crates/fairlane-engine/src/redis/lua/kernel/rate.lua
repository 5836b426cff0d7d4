-- Token buckets. A bucket is the text `level:at`, a rate the text `count:period_ms:burst`.

-- The rate in units of a bucket, or nil without one.
function kernel.flow_of(rate)
  local count, period_ms, burst = match(rate, '^(%d+):(%d+):(%d+)$')
  if not count or count == '0' then return nil end
  local job_units = MILLI * period_ms * 1000
  return {units_per_us = count * MILLI, job_units = job_units, capacity = burst * job_units}
end

-- A rate as core has it, {count, period_ms, burst}, or nil without one.
function kernel.rate_of(rate)
  local count, period_ms, burst = match(rate, '^(%d+):(%d+):(%d+)$')
  return count ~= '0' and {tonumber(count), tonumber(period_ms), tonumber(burst)} or nil
end

function kernel.rate_text(rate)
  return rate and format('%d:%d:%d', unpack(rate)) or '0:0:0'
end

function kernel.refilled(cx, bucket, flow)
  local level, at = match(bucket, '^(%d+):(%d+)$')
  local elapsed_us = min(max(cx.now - at, 0), ceil(flow.capacity / flow.units_per_us))
  return min(level + elapsed_us * flow.units_per_us, flow.capacity)
end

function kernel.slots_in(level, flow)
  return floor(level / flow.job_units)
end

-- When slots for `jobs`, or for half the burst if that is less, are free; at most a park from now.
function kernel.wake_time(cx, level, flow, jobs)
  local burst = floor(flow.capacity / flow.job_units)
  local need = min(jobs, max(floor(burst / 2), 1)) * flow.job_units
  return cx.now + min(ceil(max(need - level, 0) / flow.units_per_us), PARK_US_MAX)
end

function kernel.bucket_text(cx, level)
  return text(level) .. ':' .. text(cx.now)
end

-- Adapts a bucket to a changed rate: equal rates change nothing, otherwise whole jobs carry over.
function kernel.changed_bucket(cx, bucket, from_rate, to_rate)
  if from_rate == to_rate then return bucket end
  local from, to = kernel.flow_of(from_rate), kernel.flow_of(to_rate)
  if not to then return '0:0' end
  if not from then return kernel.bucket_text(cx, to.capacity) end
  local jobs = kernel.slots_in(kernel.refilled(cx, bucket, from), from)
  return kernel.bucket_text(cx, min(jobs * to.job_units, to.capacity))
end
