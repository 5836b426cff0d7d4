#!lua flags=allow-oom
-- extend: jobs extended together become a batch with its own deadline; a lost lease is reported as
-- lost, never recreated.
-- Key: the partition.
-- Arguments: [1] time, [2] lease in µs, then per job: name (group:id), padded fence.
-- Replies a letter per job: e extended, c extended but cancelled, l lost.
local FIELDS = {'fence'}

function queue.ops.extend(cx)
  kernel.read_partition(cx, FIELDS)
  queue.begin_ending(cx)
  local letters, asked, names, holds = {}, {}, {}, {}
  for at = 3, #cx.arguments, 2 do asked[#asked + 1] = cx.arguments[at] end
  local values = #asked > 0 and call('HMGET', cx.prefix .. 'in-flight', unpack(asked)) or {}
  local fence = max(cx.partition.fence + 1, cx.now)
  local batch = format('%016d', fence)
  for index, name in ipairs(asked) do
    local held = values[index] and queue.parse_hold(cx, values[index])
    letters[index] = 'l'
    if held and held.fence == cx.arguments[2 + 2 * index] then
      letters[index], names[#names + 1] = queue.is_unwanted(cx, held) and 'c' or 'e', name
      holds[#holds + 1] = name
      holds[#holds + 1] = held.fence .. batch .. sub(values[index], 33)
      if held.batch ~= held.fence then
        cx.batches_left[held.batch] = (cx.batches_left[held.batch] or 0) + 1
      end
    end
  end
  if #names > 0 then
    cx.partition.fence = fence
    call('HSET', cx.prefix .. 'in-flight', unpack(holds))
    call('HSET', cx.prefix .. 'lease:' .. batch, 'left', #names, 'names', table.concat(names, '\n'))
    call('ZADD', cx.prefix .. 'deadlines', text(cx.now + cx.arguments[2]), batch)
    queue.leave_batches(cx)
  end
  kernel.write_partition(cx)
  return table.concat(letters)
end
