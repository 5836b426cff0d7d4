-- Pages of names from lists, orders and chunks, from `cursor` on and at most `limit` entries. One
-- more entry than is returned shows where the next page starts.

function queue.begin_page(cx, cursor, limit)
  cx.cursor, cx.most, cx.entries = cursor, limit + 1, {}
end

-- A name is `group:id`, or false if the job has moved elsewhere.
function queue.add_entry(cx, position, name, due, held, deadline)
  cx.entries[#cx.entries + 1] =
    {position = position, name = name, due = due, held = held, deadline = deadline}
end

-- Entries with positions that continue from list to list.
function queue.from_lists(cx, keys, name_of)
  local before = 0
  for _, key in ipairs(keys) do
    local length, room = call('LLEN', key), cx.most - #cx.entries
    local first = min(max(cx.cursor - before, 0), length)
    if room > 0 and first < length then
      for index, element in ipairs(call('LRANGE', key, text(first), text(first + room - 1))) do
        queue.add_entry(cx, before + first + index - 1, name_of(element))
      end
    end
    before = before + length
  end
end

-- Entries with positions composed of the number of a chunk and the index within it.
-- `chunk_at` returns the names of a chunk, their entries of `in-flight` and their deadline,
-- or nil after the last one.
function queue.from_chunks(cx, chunk_at)
  local number, skipped = floor(cx.cursor / LIST_STRIDE), cx.cursor % LIST_STRIDE
  for _ = 0, cx.most do
    local room = cx.most - #cx.entries
    if room == 0 then return end
    local names, holds, deadline = chunk_at(number)
    if not names then return end
    for place = skipped + 1, min(#names, skipped + room) do
      queue.add_entry(cx, number * LIST_STRIDE + place - 1, names[place], nil, holds and holds[place],
        deadline)
    end
    number, skipped = number + 1, 0
  end
end

-- Entries with their ranks as positions.
function queue.from_order(cx, key)
  return call('ZRANGE', cx.prefix .. key, text(cx.cursor), text(cx.cursor + cx.most - 1), 'WITHSCORES')
end

-- The parts of `head\npart\npart`, each after `before`.
function queue.parts_of(chunk, before)
  local parts = {}
  for part in string.gmatch(chunk, '\n([^\n]+)') do parts[#parts + 1] = before .. part end
  return parts
end
