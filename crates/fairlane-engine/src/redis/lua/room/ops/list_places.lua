#!lua flags=allow-oom,no-writes
-- list_places: lists the places of a room in order, page by page. Read-only.
-- Key: the partition.

-- The key of the listing, the rank of its first place, and how many places it has.
local function listed(cx, state, listing)
  if listing == 'Active' then
    local key = state.keys .. 'active'
    local ended = call('ZCOUNT', key, '-inf', text(cx.now))
    return key, ended, room.active(state) - ended
  end
  local class = listing.Waiting.class
  if class >= #state.weights then return nil, 0, 0 end
  return room.waiting_key(state, class), 0, room.waiting_in(state, class)
end

function room.ops.list_places(cx, command)
  local state, places = room.load(cx, command.room), {}
  if not state then return {places = places} end
  local key, skipped, total = listed(cx, state, command.listing)
  if not key then return {places = places} end
  local first = skipped + command.from
  local members = call('ZRANGE', key, first, first + command.places_max - 1, 'WITHSCORES')
  for index = 1, #members, 2 do
    local place, score = room.place(state, members[index]), tonumber(members[index + 1])
    places[#places + 1] = {
      user = place.user, number = place.class and score or 0, remaining_us = place.class and 0 or score - cx.now,
    }
  end
  local rest = command.from + #places
  return {places = places, next = rest < total and rest or nil}
end
