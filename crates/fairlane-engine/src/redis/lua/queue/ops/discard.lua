#!lua flags=allow-oom
-- discard: removes dead jobs before their retention ends. Their ids can be used again.
-- Key: the partition.
-- Arguments: [1] time, [2…] names (group:id).
-- Replies a letter per job: d discarded, n not dead, u unknown.
local FIELDS = {'stored_bytes'}

function queue.ops.discard(cx)
  kernel.read_partition(cx, FIELDS)
  local letters = {}
  for index = 2, #cx.arguments do
    local name = cx.arguments[index]
    local group, id = match(name, '^([^:]+):(.+)$')
    local row, run = unpack(call('HMGET', queue.rows_key(cx, group), id, ':' .. id))
    local letter = 'd'
    if not row then
      letter = 'u'
    elseif not run or sub(run, 1, 1) ~= 'F' then
      letter = 'n'
    else
      call('ZREM', cx.prefix .. 'failed', name)
      queue.subtract_bytes(cx, group, queue.job_bytes(row, run))
      call('HDEL', queue.rows_key(cx, group), id, ':' .. id)
      queue.count_jobs(cx, match(run, '^:%d:([^:]+)', 34), -1)
    end
    letters[index - 1] = letter
  end
  queue.write_all(cx)
  return table.concat(letters)
end
