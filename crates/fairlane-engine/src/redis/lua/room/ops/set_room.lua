#!lua flags=allow-oom
-- set_room: sets the limits of a room.
-- Key: the partition.

-- Whether a class that is to be removed has waiters.
local function is_in_use(state, classes)
  for class = classes, #state.weights - 1 do
    if room.waiting_in(state, class) > 0 then return true end
  end
  return false
end

function room.ops.set_room(cx, command)
  room.read_shared(cx)
  local state, classes = room.take_or_new(cx, command.room), #command.settings.weights
  if not state then return 'TooManyRooms' end
  local in_use = is_in_use(state, classes)
  if not in_use then
    room.complete(state)
    local tags, rate = {}, state.rate
    for index = 1, classes do tags[index] = state.tags[index] or 0 end
    room.set_settings(state, room.settings_text(command.settings))
    state.bucket = kernel.changed_bucket(cx, state.bucket, rate, state.rate)
    state.tags, state.changed = tags, true
  end
  room.store(cx, state)
  return in_use and 'ClassInUse' or {Set = {active = room.active_now(cx, state)}}
end
