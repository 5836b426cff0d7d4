-- The state of a call to the queue. Rows are read once, kept here and written once by `write_all`.

function queue.begin(keys, arguments)
  local cx = kernel.begin(keys, arguments)
  -- Rows by name or number; wake-up tokens by type; bytes removed from groups that were not read.
  cx.types, cx.groups, cx.bulks, cx.tokens, cx.bytes_removed = {}, {}, {}, {}, {}
  cx.lane_fields = {}
  -- Types that exist, and changes of their numbers of jobs.
  cx.types_known, cx.jobs_counted = {}, {}
  -- Names of ended jobs to file with the groups they are of, and bulk actions to review.
  cx.completed, cx.completed_groups, cx.reviewed = {}, {}, {}
  return cx
end

-- A job's name among jobs of many lanes: `place:group:id`, then `:number` of its bulk action if
-- any.
function queue.placed_name(place, name, number)
  return place .. ':' .. name .. (number ~= '' and ':' .. number or '')
end
