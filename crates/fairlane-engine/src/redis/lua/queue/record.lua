-- The record of a group's run, `waiting:total:throttles:since:noted:backoff` in its row.
local NEW_RECORD = '0:0:0:0:0:0'

-- Counts of a group besides `done`: waiting jobs, jobs of its run, throttles of ended jobs, jobs
-- ended before that count, second of the newest snapshot, newest backoff. Read only when needed.
function queue.record(group)
  if group.record then return group.record end
  group.record_was = group.record_was or call('HGET', group.key, 'run') or NEW_RECORD
  local waiting, total, throttles, since, noted, backoff =
    match(group.record_was, '^(-?%d+):(%d+):(%d+):(%d+):(%d+):(%d+)$')
  local known = {
    waiting = tonumber(waiting), total = total + (group.added or 0), throttles = tonumber(throttles),
    since = tonumber(since), noted = tonumber(noted), backoff = tonumber(backoff),
  }
  group.record, group.added = known, nil
  return known
end

-- Counts new jobs of a group's run. Its record need not be read for that.
function queue.count_added(group, jobs)
  local known = group.record
  if known then known.total = known.total + jobs else group.added = (group.added or 0) + jobs end
end

-- The changed record of a group, or nil.
function queue.changed_record(group)
  local known, was = group.record, group.record_was
  if known then
    local value = format('%d:%d:%d:%d:%d:%d', known.waiting, known.total, known.throttles, known.since,
      known.noted, known.backoff)
    return value ~= was and value or nil
  end
  if not group.added then return nil end
  was = was or call('HGET', group.key, 'run') or NEW_RECORD
  if was == NEW_RECORD then return '0:' .. text(group.added) .. ':0:0:0:0' end
  local waiting, total, rest = match(was, '^(-?%d+:)(%d+)(.+)$')
  return waiting .. text(total + group.added) .. rest
end
