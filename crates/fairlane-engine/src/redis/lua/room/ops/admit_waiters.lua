#!lua flags=allow-oom
-- admit_waiters: brings one room up to date.
-- Key: the partition.

function room.ops.admit_waiters(cx, command)
  room.read_shared(cx)
  local before = room.load(cx, command.room)
  if not before then return {admitted = 0, expired = 0, silent = 0, active = 0, waiting = 0} end
  room.complete(before)
  local state = room.take(cx, command.room)
  room.complete(state)
  room.store(cx, state)
  return {
    admitted = state.totals[2] - before.totals[2], expired = state.totals[5] - before.totals[5],
    silent = state.totals[6] - before.totals[6], active = room.active_now(cx, state), waiting = room.waiting(state),
  }
end
