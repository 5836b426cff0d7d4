#!lua flags=allow-oom
-- break_lock: takes a lock away from its holders.
-- Key: the partition.

local function tokens(state)
  if state.kind ~= 'exclusive' then return call('ZRANGE', lock.ends_key(state), 0, -1) end
  return {state.only and state.only.token}
end

function lock.ops.break_lock(cx, command)
  local state, holders = lock.take(cx, command.name), 0
  if not state then return {holders = 0} end
  for _, token in ipairs(tokens(state)) do
    local holder = lock.holder(state, token)
    if not command.fence or holder.fence == command.fence then
      lock.remove_holder(state, holder)
      holders = holders + 1
    end
  end
  lock.store(cx, state)
  return {holders = holders}
end
