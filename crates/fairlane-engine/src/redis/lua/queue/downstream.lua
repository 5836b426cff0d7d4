-- How a type's rate responds to a downstream that answers 429. All in integers.

local function cube_root(value)
  local root = floor(value ^ (1 / 3))
  while root * root * root > value do root = root - 1 end
  while (root + 1) * (root + 1) * (root + 1) <= value do root = root + 1 end
  return root
end

-- The ten counters as of now, and the number of the newest; a type's row has `newest:counter:…`.
local function goodput_buckets(cx, state)
  local buckets, count, newest = {}, -1, 0
  for number in string.gmatch(state.goodput, '%d+') do
    if count < 0 then newest = tonumber(number) else buckets[count] = tonumber(number) end
    count = count + 1
  end
  local current = floor(cx.now / 1000 / GOODPUT_BUCKET_MS)
  local passed = current - newest
  for index = 0, GOODPUT_BUCKETS - 1 do
    local age = (current - index) % GOODPUT_BUCKETS
    if count < 0 or passed < 0 or passed > age then buckets[index] = 0 end
  end
  return buckets, current
end

-- Responses of the last second that were not refusals.
function queue.answered_lately(cx, state)
  local sum, buckets = 0, goodput_buckets(cx, state)
  for index = 0, GOODPUT_BUCKETS - 1 do sum = sum + buckets[index] end
  return sum
end

local function store_buckets(state, buckets, current)
  state.goodput = text(current) .. ':' .. table.concat(buckets, ':', 0, GOODPUT_BUCKETS - 1)
end

function queue.count_goodput(cx, state, answers)
  local buckets, current = goodput_buckets(cx, state)
  local index = current % GOODPUT_BUCKETS
  buckets[index] = buckets[index] + answers
  store_buckets(state, buckets, current)
end

-- The current rate in thousandths of a job per second, or nil. Forgets a cut that has healed.
function queue.rate_milli(cx, state)
  local count, period_ms = match(state.rate, '^(%d+):(%d+)')
  local configured = count and count ~= '0' and floor(count * MILLI * 1000 / period_ms) or nil
  if state.cut == '' then return configured end
  local at, fence, plateau_milli, plateau_ms = match(state.cut, '^(%d+):(%d+):(%d+):(%d+)$')
  at, plateau_milli, plateau_ms = tonumber(at), tonumber(plateau_milli), tonumber(plateau_ms)
  if at > cx.now then
    at = cx.now
    state.cut = text(at) .. ':' .. fence .. ':' .. text(plateau_milli) .. ':' .. text(plateau_ms)
  end
  state.closed_until = min(state.closed_until, cx.now + RETRY_AFTER_US_MAX)
  local grown_ms = floor(max(cx.now - max(at, state.closed_until), 0) / 1000)
  local distance_ms = min(math.abs(grown_ms - plateau_ms), CUBIC_MS_MAX)
  local step = floor(distance_ms * distance_ms * distance_ms / CUBIC_DIVISOR)
  local grown = grown_ms < plateau_ms and max(plateau_milli - step, 0) or plateau_milli + step
  grown = min(max(grown, CUT_RATE_MILLI_MIN), RATE_COUNT_MAX * MILLI)
  if configured and grown >= configured then
    state.cut = ''
    return configured
  end
  return grown
end

-- The current flow of the type's bucket, or nil if unlimited.
function queue.type_flow(cx, state)
  local milli = queue.rate_milli(cx, state)
  if not milli then return nil end
  if state.cut == '' then return kernel.flow_of(state.rate) end
  local period_ms, most = match(state.rate, '^%d+:(%d+):(%d+)$')
  if not period_ms or period_ms == '0' then period_ms, most = 1000, nil end
  local job_units = MILLI * period_ms * 1000
  local burst = 1 + ceil(milli * BURST_US / (MILLI * 1000000))
  if most then burst = min(burst, tonumber(most)) end
  return {units_per_us = floor(milli * period_ms / 1000), job_units = job_units, capacity = burst * job_units}
end

local function cut_rate(cx, state)
  local buckets, current = goodput_buckets(cx, state)
  store_buckets(state, buckets, current)
  local goodput = 0
  for index = 0, GOODPUT_BUCKETS - 1 do goodput = goodput + buckets[index] end
  goodput = goodput * MILLI
  local limited = queue.rate_milli(cx, state)
  local before = limited or max(goodput, CUT_RATE_MILLI_MIN)
  local after
  if not limited or goodput * 10 < before * 7 then
    after = floor(goodput * 95 / 100)
  else
    after = floor(before * 85 / 100)
  end
  after = max(after, CUT_RATE_MILLI_MIN)
  local fall = min(max(before - after, 0), floor(CUBIC_MS_MAX ^ 3 / CUBIC_DIVISOR))
  local plateau_ms = cube_root(fall * CUBIC_DIVISOR)
  state.cut =
    text(cx.now) .. ':' .. text(cx.partition.fence) .. ':' .. text(before) .. ':' .. text(plateau_ms)
end

-- Handles one refusal of a job leased under `fence`.
function queue.note_refusal(cx, state, fence, retry_after_us)
  local cut_fence = match(state.cut, '^%d+:(%d+)')
  if not cut_fence or fence > tonumber(cut_fence) then cut_rate(cx, state) end
  if retry_after_us > 0 then state.closed_until = max(state.closed_until, cx.now + retry_after_us) end
end
