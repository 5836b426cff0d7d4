-- The windows of `classic`: jobs that have passed in the current second, `second:jobs`, of the queue
-- and of each group.

-- Jobs that have passed a window in this second.
function queue.passed_in(cx, window)
  local at, jobs = match(window, '^(%d+):(%d+)$')
  return tonumber(at) == floor(cx.now / 1000000) and tonumber(jobs) or 0
end

local function window_text(cx, jobs)
  return text(floor(cx.now / 1000000)) .. ':' .. text(jobs)
end

-- Takes a slot in the window for one more job of this group; false if there is none.
function queue.window_passes(cx, group)
  if not group.window_was then
    group.window_was = call('HGET', group.key, 'window') or '0:0'
    group.window = group.window_was
  end
  local of_group = queue.passed_in(cx, group.window)
  cx.partition.window = window_text(cx, cx.passed)
  if cx.passed >= cx.partition.global_rps or of_group >= queue.group_speed(cx) then return false end
  cx.passed = cx.passed + 1
  cx.partition.window, group.window = window_text(cx, cx.passed), window_text(cx, of_group + 1)
  return true
end
