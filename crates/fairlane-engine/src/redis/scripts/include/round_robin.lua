-- Serves each type one job in turn, starting after the type served last.
local function types_after_cursor()
  local turns, behind, known = {}, {}, call('SMEMBERS', prefix .. 'types')
  table.sort(known, precedes)
  for _, name in ipairs(known) do
    local list = precedes(partition.cursor, name) and turns or behind
    list[#list + 1] = name
  end
  for _, name in ipairs(behind) do turns[#turns + 1] = name end
  return turns
end

local turns = partition.classic == 1 and types_after_cursor() or {}
while decided < jobs_max and turns[1] do
  local name = table.remove(turns, 1)
  local turn = admit_one(type_state(name))
  if turn == 'all done' then
    more = 1
    break
  end
  if turn == 'decided' then
    partition.cursor = name
    turns[#turns + 1] = name
  end
end
if turns[1] then more = 1 end
