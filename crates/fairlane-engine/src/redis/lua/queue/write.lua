-- Writes changed rows back, and wakes workers.
function queue.history_key(cx, group)
  return cx.prefix .. 'congestion:' .. group.name .. ':history'
end

-- Schedules the check of an idle group, unless one is scheduled.
function queue.watch_idle(cx, name)
  call('ZADD', cx.prefix .. 'idle-groups', 'NX', text(cx.now + GROUP_IDLE_US), name)
end

function queue.push_token(cx, name)
  cx.tokens[name] = (cx.tokens[name] or 0) + 1
end

local function write_removed_bytes(cx)
  for name, bytes in pairs(cx.bytes_removed) do
    local group = cx.groups[name]
    if group then
      group.stored_bytes = group.stored_bytes - bytes
    elseif bytes > 0 then
      call('HINCRBY', cx.prefix .. 'group:' .. name .. ':meta', 'stored_bytes', text(-bytes))
    end
  end
end

-- The elements of a list, each after `before`.
local function each_after(before, list)
  local pairs_of = {}
  for index, element in ipairs(list) do pairs_of[2 * index - 1], pairs_of[2 * index] = before, element end
  return unpack(pairs_of)
end

local function write_groups(cx)
  cx.activated, cx.idled, cx.moved = {}, {}, {}
  for _, group in pairs(cx.groups) do queue.write_group(cx, group) end
  local key = cx.prefix .. 'active-groups'
  if cx.activated[1] then call('ZADD', key, each_after(0, cx.activated)) end
  if cx.idled[1] then
    call('ZREM', key, unpack(cx.idled))
    call('ZADD', cx.prefix .. 'idle-groups', 'NX', each_after(text(cx.now + GROUP_IDLE_US), cx.idled))
  end
  queue.index_groups(cx)
end

function queue.write_all(cx)
  write_removed_bytes(cx)
  write_groups(cx)
  queue.write_bulks(cx)
  queue.write_types(cx)
  kernel.write_partition(cx)
  for name, count in pairs(cx.tokens) do
    local key, pushed = cx.prefix .. 'wake:' .. name, {}
    for index = 1, min(count, TOKENS_MAX) do pushed[index] = '1' end
    if call('RPUSH', key, unpack(pushed)) > TOKENS_MAX then call('LTRIM', key, 0, TOKENS_MAX - 1) end
  end
end
