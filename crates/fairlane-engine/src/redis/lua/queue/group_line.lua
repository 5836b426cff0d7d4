-- A group in a list. A wrong count may be negative until an audit has repaired it.
function queue.group_line(cx, name)
  local group = queue.group_state(cx, name)
  local known = queue.record(group)
  return {
    group = name, backlog = max(group.backlog, 0), in_flight = max(group.in_flight, 0),
    waiting = max(known.waiting, 0), total = known.total, done = group.done, backoff_ms = known.backoff,
    settings = queue.group_settings(group),
  }
end
