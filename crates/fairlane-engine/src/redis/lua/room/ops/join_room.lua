#!lua
-- join_room: gives a user a place in a room.
-- Key: the partition.

-- Adds the user to the waiters, or returns why not.
local function add(state, command)
  room.complete(state)
  if state.phase ~= 'open' and state.phase ~= 'prequeue' then return {Refused = 'Closed'} end
  if command.class >= #state.weights then return {Refused = 'UnknownClass'} end
  if room.place(state, command.token) then return {Refused = 'TokenInUse'} end
  if room.waiting(state) + room.active(state) >= ROOM_PLACES_MAX then return {Refused = 'TooManyPlaces'} end
  local number = command.ticket
  if state.phase == 'open' then
    number, state.next = state.next, state.next + 1
  elseif not number then
    return {TicketNeeded = {seed = state.seed}}
  end
  room.add_waiter(state, command.token, command.user, command.class, number)
  state.totals[1] = state.totals[1] + 1
end

function room.ops.join_room(cx, command)
  room.read_shared(cx)
  local state = room.take_or_new(cx, command.room)
  if not state then return {Refused = 'TooManyRooms'} end
  local token, refused = call('HGET', state.keys .. 'users', command.user), nil
  if not token then
    token, refused = command.token, add(state, command)
  end
  local view = not refused and room.view_place(cx, state, room.place(state, token))
  if view and view ~= 'Unknown' and view.Waiting then room.see(cx, state, token, view.Waiting.next_poll_ms) end
  room.store(cx, state)
  if refused then return refused end
  local status = {place = room.view_place(cx, state, room.place(state, token)), active = room.active_now(cx, state)}
  return {Joined = {token = token, status = status}}
end
