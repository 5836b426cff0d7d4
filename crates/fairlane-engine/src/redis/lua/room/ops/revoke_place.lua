#!lua flags=allow-oom
-- revoke_place: takes a user's place away.
-- Key: the partition.

function room.ops.revoke_place(cx, command)
  room.read_shared(cx)
  local state = room.take(cx, command.room)
  if not state then return {was_there = false, active = 0} end
  local token = call('HGET', state.keys .. 'users', command.user)
  if token then
    room.complete(state)
    room.remove(state, room.place(state, token))
    state.totals[4] = state.totals[4] + 1
  end
  room.store(cx, state)
  return {was_there = token and true or false, active = room.active_now(cx, state)}
end
