#!lua flags=allow-oom
-- set_type: changes rate, concurrency, pause and retries of a type. Any patch that is not
-- empty reopens a type that Retry-After has closed. A changed rate discards the state
-- learned from refusals.
-- KEYS[1] the partition.
-- ARGV[1] time, [2] type, [3] paused, [4] concurrency (0 none), [5] rate (0:0:0 none),
-- [6] attempts at which a job is dead (0: the queue's setting); '' leaves as is.
-- Replies paused:concurrency:dead_at:count:period_ms:burst, or 'too many types'.
--@include base
--@include rate
--@include lane
--@include write
read_partition({'epochs'})
local name = ARGV[2]
local known = has_type(name)
if not known then return 'too many types' end
if known == 0 then create_type(name) end
local state = type_state(name)
local before = state.limits == '' and '0:0:0:0:0:0' or state.limits
local paused, concurrency, dead_at, rate = match(before, '^(%d):(%d+):(%d+):(.*)$')
local function patched(index, value)
  return ARGV[index] == '' and value or ARGV[index]
end
local new_rate = patched(5, rate)
local limits = patched(3, paused) .. ':' .. patched(4, concurrency) .. ':' .. patched(6, dead_at) .. ':' .. new_rate
local reopened = state.closed_until > now and ARGV[3] .. ARGV[4] .. ARGV[5] .. ARGV[6] ~= ''
if reopened then state.closed_until = now end
if limits ~= before or reopened then
  if new_rate ~= rate then
    state.cut, state.closed_until, state.goodput = '', 0, ''
    state.bucket = changed_bucket(state.bucket, rate, new_rate)
  end
  state.limits = limits
  if is_active(state) or call('EXISTS', prefix .. 'ready-queue:' .. name) == 1 then push_token(name) end
end
write_all()
return limits
