-- The state of a call on the activity log. `activity` has the ids of its entries by time,
-- `activity-entries` their contents: a line each for jobs, actor, kind and name of the subject, text.

function activity.begin(keys, arguments)
  local cx = kernel.begin(keys, arguments)
  cx.order, cx.entries = cx.prefix .. 'activity', cx.prefix .. 'activity-entries'
  return cx
end

-- The jobs of an entry, and the lines that follow.
function activity.jobs_of(entry)
  local jobs, rest = match(entry, '^(%d+)(\n.*)$')
  return tonumber(jobs), rest
end
