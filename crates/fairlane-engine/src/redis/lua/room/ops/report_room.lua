#!lua flags=allow-oom
-- report_room: what the back end behind a room answered, which adapts the admission rate.
-- Key: the partition.

function room.ops.report_room(cx, command)
  room.read_shared(cx)
  local state = room.take(cx, command.room)
  if not state then return {active = 0} end
  room.complete(state)
  if command.answered > 0 then queue.count_goodput(cx, state, command.answered) end
  if command.refused then
    -- Refusals that arrive soon after a cut belong to users admitted before it.
    cx.partition.fence = cx.now
    queue.note_refusal(cx, state, max(cx.now - ROOM_FLIGHT_US, 0), command.retry_after_ms * 1000)
  end
  local rate_milli = queue.rate_milli(cx, state)
  state.changed = true
  room.store(cx, state)
  return {rate_milli = rate_milli, active = room.active_now(cx, state)}
end
