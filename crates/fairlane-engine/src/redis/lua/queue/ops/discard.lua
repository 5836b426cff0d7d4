#!lua flags=allow-oom
-- discard: removes dead jobs before their retention ends. Their ids can be used again.
-- Key: the partition.
local FIELDS = {'stored_bytes'}

local function discard(cx, group, id)
  local row, run = unpack(call('HMGET', queue.rows_key(cx, group), id, ':' .. id))
  if not row then return 'Unknown' end
  if not run or sub(run, 1, 1) ~= 'F' then return 'NotDead' end
  call('ZREM', cx.prefix .. 'failed', group .. ':' .. id)
  queue.subtract_bytes(cx, group, queue.job_bytes(row, run))
  call('HDEL', queue.rows_key(cx, group), id, ':' .. id)
  queue.count_jobs(cx, match(run, '^:%d:([^:]+)', 34), -1)
  return 'Discarded'
end

function queue.ops.discard(cx, command)
  kernel.read_partition(cx, FIELDS)
  local disposals = {}
  for index, job in ipairs(command.jobs) do disposals[index] = discard(cx, job.group, job.id) end
  queue.write_all(cx)
  return {jobs = disposals}
end
