#!lua flags=allow-oom
-- extend: jobs extended together become a batch with its own deadline; a lost lease is reported as
-- lost, never recreated.
-- KEYS[1] the partition.
-- ARGV[1] time, [2] lease in µs, then per job: name (group:id), padded fence.
-- Replies a letter per job: e extended, c extended but cancelled, l lost.
--@include base
--@include rate
--@include lane
--@include write
--@include order
--@include waiting
--@include bytes
--@include bulk
--@include finish_job
--@include congestion
--@include end_lease
read_partition({'fence'})
local letters, asked, names, holds = {}, {}, {}, {}
for at = 3, #ARGV, 2 do asked[#asked + 1] = ARGV[at] end
local values = #asked > 0 and call('HMGET', prefix .. 'in-flight', unpack(asked)) or {}
local fence = max(partition.fence + 1, now)
local batch = format('%016d', fence)
for index, name in ipairs(asked) do
  local held = values[index] and parse_hold(values[index])
  letters[index] = 'l'
  if held and held.fence == ARGV[2 + 2 * index] then
    letters[index], names[#names + 1] = is_unwanted(held) and 'c' or 'e', name
    holds[#holds + 1] = name
    holds[#holds + 1] = held.fence .. batch .. sub(values[index], 33)
    if held.batch ~= held.fence then batches_left[held.batch] = (batches_left[held.batch] or 0) + 1 end
  end
end
if #names > 0 then
  partition.fence = fence
  call('HSET', prefix .. 'in-flight', unpack(holds))
  call('HSET', prefix .. 'lease:' .. batch, 'left', #names, 'names', table.concat(names, '\n'))
  call('ZADD', prefix .. 'deadlines', text(now + ARGV[2]), batch)
  leave_batches()
end
write_partition()
return table.concat(letters)
