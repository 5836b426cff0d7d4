#!lua flags=allow-oom
-- set_type: changes rate, concurrency, pause and retries of a type. Any patch that is not
-- empty reopens a type that Retry-After has closed. A changed rate discards the state
-- learned from refusals.
-- Key: the partition.
-- Arguments: [1] time, [2] type, [3] paused, [4] concurrency (0 none), [5] rate (0:0:0 none),
-- [6] attempts at which a job is dead (0: the queue's setting); '' leaves as is.
-- Replies paused:concurrency:dead_at:count:period_ms:burst, or 'too many types'.
local FIELDS = {'epochs'}

local function patched(cx, index, value)
  return cx.arguments[index] == '' and value or cx.arguments[index]
end

function queue.ops.set_type(cx)
  kernel.read_partition(cx, FIELDS)
  local name = cx.arguments[2]
  local known = queue.has_type(cx, name)
  if not known then return 'too many types' end
  if known == 0 then queue.create_type(cx, name) end
  local state = queue.type_state(cx, name)
  local before = state.limits == '' and '0:0:0:0:0:0' or state.limits
  local paused, concurrency, dead_at, rate = match(before, '^(%d):(%d+):(%d+):(.*)$')
  local new_rate = patched(cx, 5, rate)
  local limits = patched(cx, 3, paused) .. ':' .. patched(cx, 4, concurrency) .. ':'
    .. patched(cx, 6, dead_at) .. ':' .. new_rate
  local reopened = state.closed_until > cx.now
    and cx.arguments[3] .. cx.arguments[4] .. cx.arguments[5] .. cx.arguments[6] ~= ''
  if reopened then state.closed_until = cx.now end
  if limits ~= before or reopened then
    if new_rate ~= rate then
      state.cut, state.closed_until, state.goodput = '', 0, ''
      state.bucket = kernel.changed_bucket(cx, state.bucket, rate, new_rate)
    end
    state.limits = limits
    if queue.is_active(state) or call('EXISTS', cx.prefix .. 'ready-queue:' .. name) == 1 then
      queue.push_token(cx, name)
    end
  end
  queue.write_all(cx)
  return limits
end
