#!lua flags=allow-oom,no-writes
-- list_largest_groups: lists the groups with unfinished jobs by descending magnitude of their
-- backlog, then the groups that are not in the index by name. Read-only.
-- Key: the partition.

-- The number of groups in the index before a position, by a search in the order of their ranks.
local function rank_of(key, position)
  if not position then return call('ZCARD', key) end
  local magnitude = text(position.magnitude)
  local low, high = call('ZCOUNT', key, '-inf', '(' .. magnitude), call('ZCOUNT', key, '-inf', magnitude)
  while low < high do
    local middle = floor((low + high) / 2)
    if precedes(call('ZRANGE', key, text(middle), text(middle))[1], position.group) then
      low = middle + 1
    else
      high = middle
    end
  end
  return low
end

-- Adds the groups of the index before a position, the largest first; returns the next position
-- if the page is full.
local function add_large(cx, lines, position, limit)
  local key = cx.prefix .. 'large-groups'
  local rank = rank_of(key, position)
  local page = rank == 0 and {}
    or call('ZRANGE', key, text(max(rank - limit, 0)), text(rank - 1), 'WITHSCORES')
  for index = #page - 1, 1, -2 do lines[#lines + 1] = queue.group_line(cx, page[index]) end
  if #lines == limit then return {magnitude = tonumber(page[2]), group = page[1]} end
end

-- Adds the groups that are not in the index among some active ones after a name.
local function add_small(cx, lines, after, limit)
  local from = after and '(' .. after or '-'
  local names = call('ZRANGE', cx.prefix .. 'active-groups', from, '+', 'BYLEX', 'LIMIT', 0, limit)
  local scores = names[1] and call('ZMSCORE', cx.prefix .. 'large-groups', unpack(names))
  for index, name in ipairs(names) do
    if not scores[index] then lines[#lines + 1] = queue.group_line(cx, name) end
  end
  if #names == limit then return {magnitude = 0, group = names[#names]} end
end

function queue.ops.list_largest_groups(cx, command)
  local lines, after, limit = {}, command.after, command.limit
  if after and after.magnitude == 0 then
    local following = add_small(cx, lines, after.group, limit)
    return {groups = lines, next = following}
  end
  local following = add_large(cx, lines, after, limit) or add_small(cx, lines, nil, limit - #lines)
  return {groups = lines, next = following}
end
