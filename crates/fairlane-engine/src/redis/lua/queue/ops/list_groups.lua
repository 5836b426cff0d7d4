#!lua flags=allow-oom,no-writes
-- list_groups: lists the groups that have unfinished jobs, by name, and with `all` also those that
-- have settings of their own. Read-only.
-- Key: the partition.

-- Some groups of a sorted set after a name.
local function names_of(cx, set, command)
  local from = command.after and '(' .. command.after or '-'
  return call('ZRANGE', cx.prefix .. set, from, '+', 'BYLEX', 'LIMIT', 0, command.limit)
end

-- The first names of two lists in order, without duplicates.
local function merged(left, right, limit)
  local names, at, other = {}, 1, 1
  while #names < limit and (left[at] or right[other]) do
    local mine, theirs = left[at], right[other]
    local is_mine = not theirs or mine and not precedes(theirs, mine)
    names[#names + 1] = is_mine and mine or theirs
    if is_mine then at = at + 1 end
    if not is_mine or mine == theirs then other = other + 1 end
  end
  return names
end

function queue.ops.list_groups(cx, command)
  local names, lines = names_of(cx, 'active-groups', command), {}
  if command.all then
    names = merged(names, names_of(cx, 'configured-groups', command), command.limit)
  end
  for index, name in ipairs(names) do lines[index] = queue.group_line(cx, name) end
  return lines
end
