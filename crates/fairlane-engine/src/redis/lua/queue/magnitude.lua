-- The index of groups by the magnitude of their backlog, in binary digits. A group rises at once and
-- falls when it has less than half of what its magnitude begins with. See `queue/magnitude.rs`.

-- The number of binary digits of a backlog.
local function digits(backlog)
  local _, exponent = math.frexp(max(backlog, 0))
  return exponent
end

-- The magnitude of a group that had magnitude `before` (0: it was not in the index).
function queue.magnitude(before, backlog)
  local now = digits(backlog)
  if before > 0 and (now == before or now == before - 1) then return before end
  return now >= LARGE_MAGNITUDE and now or 0
end

-- Whether the magnitude of a group may change with its backlog. While the digits stay, it does not.
function queue.may_have_moved(group)
  local now, was = group.backlog, group.backlog_was
  return (now > 3 or was > 3) and digits(now) ~= digits(was)
end

-- The magnitudes of groups in the index, 0 for those that are not there.
local function indexed(key, groups)
  local names = {}
  for index, group in ipairs(groups) do names[index] = group.name end
  local scores = call('ZMSCORE', key, unpack(names))
  for index, score in ipairs(scores) do scores[index] = tonumber(score or 0) end
  return scores
end

-- Moves the groups of `cx.moved` within the index, in three calls at most.
function queue.index_groups(cx)
  local groups, key = cx.moved, cx.prefix .. 'large-groups'
  if not groups[1] then return end
  local before, added, gone = indexed(key, groups), {}, {}
  for index, group in ipairs(groups) do
    local now = queue.magnitude(before[index], group.backlog)
    if now ~= before[index] and now > 0 then
      kernel.change(added, now, group.name)
    elseif now ~= before[index] then
      gone[#gone + 1] = group.name
    end
  end
  if added[1] then call('ZADD', key, unpack(added)) end
  if gone[1] then call('ZREM', key, unpack(gone)) end
end

-- Adds groups to the index that had jobs before there was one, some in each call: `indexed` is the
-- last of them, `:` when all are done.
function queue.complete_index(cx)
  local after = cx.partition.indexed
  if after == ':' then return end
  local names = call('ZRANGE', cx.prefix .. 'active-groups', after == '' and '-' or '(' .. after, '+', 'BYLEX',
    'LIMIT', 0, INDEX_GROUPS_MAX)
  for _, name in ipairs(names) do queue.group_state(cx, name).is_unindexed = true end
  cx.partition.indexed = #names < INDEX_GROUPS_MAX and ':' or names[#names]
end

-- The magnitude of a group in the index, and the one that it should have. One that is missing is no
-- fault until the index is complete.
function queue.magnitudes_of(cx, group)
  local stored = tonumber(call('ZSCORE', cx.prefix .. 'large-groups', group.name) or 0)
  if stored == 0 and cx.partition.indexed ~= ':' then return 0, 0 end
  return stored, queue.magnitude(stored, group.backlog)
end
