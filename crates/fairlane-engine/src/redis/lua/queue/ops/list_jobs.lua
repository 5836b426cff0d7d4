#!lua flags=allow-oom,no-writes
-- list_jobs: lists jobs page by page, in the order of the place they are in. Read-only.
-- Key: the partition.
-- Arguments: [1] time, [2] listing, [3] group and [4] bulk action of that listing, or '', [5] only
-- jobs of this group or '', [6] only jobs of this type or '', [7] cursor, [8] most entries to read.
-- Replies {next cursor or '', then per job: group, id, `view_line` without the payload …}.

local LISTINGS = {}

-- From `level:type:group:id`.
local function name_of(member)
  return match(member, '^%d:[^:]+:([^:]+:[^:]+)')
end

function LISTINGS.pending(cx)
  local keys, part = {}, cx.prefix .. 'group:' .. cx.of_group
  for _, place in ipairs(queue.places_of(queue.group_state(cx, cx.of_group))) do
    if cx.only_type == '' or sub(place, 3) == cx.only_type then
      keys[#keys + 1] = part .. ':returned:' .. place
      keys[#keys + 1] = part .. ':jobs:' .. place
    end
  end
  queue.from_lists(cx, keys, function(id) return cx.of_group .. ':' .. id end)
end

function LISTINGS.ready(cx)
  local known, keys = call('SMEMBERS', cx.prefix .. 'types'), {}
  table.sort(known, precedes)
  for _, name in ipairs(known) do
    if cx.only_type == '' or name == cx.only_type then
      keys[#keys + 1] = cx.prefix .. 'ready-queue:' .. name
    end
  end
  queue.from_lists(cx, keys, name_of)
end

function LISTINGS.held(cx)
  local number = queue.bulk_number(cx, cx.of_group, cx.of_bulk)
  queue.from_lists(cx, number and {cx.prefix .. 'bulk:' .. number .. ':held'} or {}, name_of)
end

function LISTINGS.waiting(cx)
  local page = queue.from_order(cx, 'non-ready-queue')
  for index = 1, #page, 2 do
    queue.add_entry(cx, cx.cursor + (index - 1) / 2, name_of(page[index]), text(tonumber(page[index + 1])))
  end
end

function LISTINGS.dead(cx)
  local page = queue.from_order(cx, 'failed')
  for index = 1, #page, 2 do queue.add_entry(cx, cx.cursor + (index - 1) / 2, page[index]) end
end

function LISTINGS.in_flight(cx)
  queue.from_chunks(cx, function(rank)
    local batch, deadline =
      unpack(call('ZRANGE', cx.prefix .. 'deadlines', text(rank), text(rank), 'WITHSCORES'))
    if not batch then return nil end
    local names = queue.parts_of('\n' .. (call('HGET', cx.prefix .. 'lease:' .. batch, 'names') or ''), '')
    local holds = names[1] and call('HMGET', cx.prefix .. 'in-flight', unpack(names)) or {}
    -- A job with a lease that has ended, or moved to a later batch, no longer
    -- belongs to this batch.
    for index, held in ipairs(holds) do
      if not held or sub(held, 17, 32) ~= batch then names[index] = false end
    end
    return names, holds, text(tonumber(deadline))
  end)
end

local function from_list_of_chunks(cx, key, before)
  queue.from_chunks(cx, function(number)
    local chunk = call('LINDEX', key, text(number))
    return chunk and queue.parts_of(chunk, before)
  end)
end

function LISTINGS.finished(cx)
  from_list_of_chunks(cx, cx.prefix .. 'completed', '')
end

function LISTINGS.ended(cx)
  cx.bulk_listed = queue.bulk_number(cx, cx.of_group, cx.of_bulk)
  if cx.bulk_listed then
    from_list_of_chunks(cx, cx.prefix .. 'bulk:' .. cx.bulk_listed .. ':ended', cx.of_group .. ':')
  end
end

-- Whether a job that ended in the listed bulk action still belongs to it: not if it was requeued,
-- or enqueued again.
local function is_still_there(cx, row, run)
  if not cx.bulk_listed then return true end
  local number = match(row, '^..........%d:[^:]+:%d*:(%d*)[:+]')
  return sub(row, 1, 1) ~= 'X' and number == cx.bulk_listed and run and sub(run, 1, 1) ~= 'N'
end

function queue.ops.list_jobs(cx)
  local listing, of_group, of_bulk, only_group, only_type, cursor, limit = unpack(cx.arguments, 2, 8)
  cx.of_group, cx.of_bulk, cx.only_type, limit = of_group, of_bulk, only_type, tonumber(limit)
  queue.begin_page(cx, tonumber(cursor), limit)
  LISTINGS[listing](cx)
  local reply, bytes, ready = {''}, 0, listing == 'ready'
  for index, entry in ipairs(cx.entries) do
    if index > limit or bytes >= LIST_BYTES_MAX then
      reply[1] = text(entry.position)
      break
    end
    local group, id = match(entry.name or '', '^([^:]+):(.+)$')
    local row, run
    if group and (only_group == '' or group == only_group) then
      row, run = unpack(call('HMGET', queue.rows_key(cx, group), id, ':' .. id))
    end
    if row and is_still_there(cx, row, run) then
      local head = queue.head_of(row)
      bytes =
        bytes + #row - #head + #(run and match(run, '^[^:]+:%d:[^:]+:%d+:%d+:%d+:%d+:[^:]*:(.*)$') or '')
      if only_type == '' or match(head, '^X?..........%d:([^:]+)') == only_type then
        reply[#reply + 1], reply[#reply + 2] = group, id
        local shown = queue.view_line(cx, head, run, entry.due, entry.held, entry.deadline, ready)
        for _, item in ipairs(shown) do reply[#reply + 1] = item end
      end
    end
  end
  return reply
end
