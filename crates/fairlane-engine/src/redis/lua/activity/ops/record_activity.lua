#!lua flags=allow-oom
-- record_activity: adds a change to the activity log, or counts more jobs of one that is there.
-- Key: the partition.

function activity.ops.record_activity(cx, command)
  kernel.check_version(call('HGET', cx.partition_key, 'version'))
  local id, known = command.id, call('ZSCORE', cx.order, command.id)
  if known then
    local jobs, rest = activity.jobs_of(call('HGET', cx.entries, id))
    if jobs < command.jobs then call('HSET', cx.entries, id, text(command.jobs) .. rest) end
    return {at = tonumber(known)}
  end
  local newest, subject = call('ZRANGE', cx.order, -1, -1, 'WITHSCORES')[2], command.subject
  local at = max(tonumber(newest or 0) + 1, cx.now)
  local entry = table.concat({
    text(command.jobs), command.actor, subject and subject.kind or '', subject and subject.name or '', command.text,
  }, '\n')
  call('ZADD', cx.order, text(at), id)
  call('HSET', cx.entries, id, entry)
  if call('ZCARD', cx.order) > ACTIVITY_MAX then call('HDEL', cx.entries, call('ZPOPMIN', cx.order)[1]) end
  return {at = at}
end
