#!lua flags=allow-oom
-- set_type: changes rate, concurrency, pause and retries of a type. Any patch that is not
-- empty reopens a type that Retry-After has closed. A changed rate discards the state
-- learned from refusals.
-- Key: the partition.
local FIELDS = {'epochs'}

-- The attempts at which a job is dead.
local function dead_at_text(max_retry_count)
  return text(max_retry_count + 1)
end

function queue.ops.set_type(cx, command)
  kernel.read_partition(cx, FIELDS)
  local name, patch = command.type_id, command.patch
  local known = queue.has_type(cx, name)
  if not known then return 'TooManyTypes' end
  if known == 0 then queue.create_type(cx, name) end
  local state = queue.type_state(cx, name)
  local before = state.limits == '' and '0:0:0:0:0:0' or state.limits
  local paused, concurrency, dead_at, rate = match(before, '^(%d):(%d+):(%d+):(.*)$')
  local new_rate = kernel.patched(patch.rate, rate, '0:0:0', kernel.rate_text)
  local limits = table.concat({
    kernel.patched_flag(patch.paused, paused), kernel.patched(patch.concurrency, concurrency, '0', text),
    kernel.patched(patch.max_retry_count, dead_at, '0', dead_at_text), new_rate,
  }, ':')
  local reopened = state.closed_until > cx.now and next(patch) ~= nil
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
  return {Set = queue.type_settings(limits)}
end
