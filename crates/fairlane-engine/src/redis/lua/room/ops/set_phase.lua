#!lua flags=allow-oom
-- set_phase: opens and closes a room, and begins a pre-queue.
-- Key: the partition.

-- Enters a phase; returns false if the room must be empty for it and is not.
local function enter(state, phase)
  room.complete(state)
  if phase == 'Closed' then
    state.phase = room.is_before_opening(state.phase) and 'frozen' or 'closed'
  elseif phase.Open then
    if room.is_before_opening(state.phase) then
      state.tickets, state.digest = room.waiting(state), phase.Open.digest
    end
    state.phase = 'open'
  else
    local seed = phase.Prequeue.seed
    local is_repeated = state.phase == 'prequeue' and state.seed == seed
    if room.waiting(state) > 0 and not is_repeated then return false end
    state.seed, state.commitment, state.digest, state.tickets = seed, phase.Prequeue.commitment, '', 0
    -- Users that join after the draw stand behind all tickets.
    state.phase, state.next = 'prequeue', max(state.next, ROOM_TICKETS)
  end
  state.changed = true
  return true
end

function room.ops.set_phase(cx, command)
  room.read_shared(cx)
  local state = room.take_or_new(cx, command.room)
  if not state then return 'TooManyRooms' end
  local is_set = enter(state, command.phase)
  local phase = room.view_phase(state.phase)
  room.store(cx, state)
  return is_set and {Set = {phase = phase, active = room.active_now(cx, state)}} or 'NotEmpty'
end
