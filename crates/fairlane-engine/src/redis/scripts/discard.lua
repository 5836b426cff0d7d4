#!lua flags=allow-oom
-- discard: removes dead jobs before their retention ends. Their ids can be used again.
-- KEYS[1] the partition.
-- ARGV[1] time, [2…] names (group:id).
-- Replies a letter per job: d discarded, n not dead, u unknown.
--@include base
--@include rate
--@include lane
--@include write
--@include bytes
read_partition({'stored_bytes'})
local letters = {}
for index = 2, #ARGV do
  local name = ARGV[index]
  local group, id = match(name, '^([^:]+):(.+)$')
  local row, run = unpack(call('HMGET', rows_key(group), id, ':' .. id))
  local letter = 'd'
  if not row then
    letter = 'u'
  elseif not run or sub(run, 1, 1) ~= 'F' then
    letter = 'n'
  else
    call('ZREM', prefix .. 'failed', name)
    subtract_bytes(group, job_bytes(row, run))
    call('HDEL', rows_key(group), id, ':' .. id)
    count_jobs(match(run, '^:%d:([^:]+)', 34), -1)
  end
  letters[index - 1] = letter
end
write_all()
return table.concat(letters)
