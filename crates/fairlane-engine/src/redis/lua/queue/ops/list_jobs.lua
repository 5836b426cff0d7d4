#!lua flags=allow-oom,no-writes
-- list_jobs: lists jobs page by page, in the order of the place they are in. Read-only.
-- Key: the partition.
-- Payloads are left out.

local LISTINGS = {}

-- From `level:type:group:id`.
local function name_of(member)
  return match(member, '^%d:[^:]+:([^:]+:[^:]+)')
end

function LISTINGS.Pending(cx, group)
  local keys, part = {}, cx.prefix .. 'group:' .. group
  for _, place in ipairs(queue.places_of(queue.group_state(cx, group))) do
    if not cx.only_type or sub(place, 3) == cx.only_type then
      keys[#keys + 1] = part .. ':returned:' .. place
      keys[#keys + 1] = part .. ':jobs:' .. place
    end
  end
  queue.from_lists(cx, keys, function(id) return group .. ':' .. id end)
end

function LISTINGS.Ready(cx)
  local known, keys = call('SMEMBERS', cx.prefix .. 'types'), {}
  table.sort(known, precedes)
  for _, name in ipairs(known) do
    if not cx.only_type or name == cx.only_type then
      keys[#keys + 1] = cx.prefix .. 'ready-queue:' .. name
    end
  end
  queue.from_lists(cx, keys, name_of)
end

function LISTINGS.OnHold(cx, bulk)
  local number = queue.bulk_number(cx, bulk.group, bulk.id)
  queue.from_lists(cx, number and {cx.prefix .. 'bulk:' .. number .. ':held'} or {}, name_of)
end

function LISTINGS.Waiting(cx)
  local page = queue.from_order(cx, 'non-ready-queue')
  for index = 1, #page, 2 do
    queue.add_entry(cx, cx.cursor + (index - 1) / 2, name_of(page[index]), tonumber(page[index + 1]))
  end
end

function LISTINGS.Dead(cx)
  local page = queue.from_order(cx, 'failed')
  for index = 1, #page, 2 do queue.add_entry(cx, cx.cursor + (index - 1) / 2, page[index]) end
end

function LISTINGS.InFlight(cx)
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
    return names, holds, tonumber(deadline)
  end)
end

local function from_list_of_chunks(cx, key, before)
  queue.from_chunks(cx, function(number)
    local chunk = call('LINDEX', key, text(number))
    return chunk and queue.parts_of(chunk, before)
  end)
end

function LISTINGS.Finished(cx)
  from_list_of_chunks(cx, cx.prefix .. 'completed', '')
end

function LISTINGS.OfBulk(cx, bulk)
  cx.bulk_listed = queue.bulk_number(cx, bulk.group, bulk.id)
  if cx.bulk_listed then
    from_list_of_chunks(cx, cx.prefix .. 'bulk:' .. cx.bulk_listed .. ':ended', bulk.group .. ':')
  end
end

-- Whether a job that ended in the listed bulk action still belongs to it: not if it was requeued,
-- or enqueued again.
local function is_still_there(cx, row, run)
  if not cx.bulk_listed then return true end
  local number = match(row, '^..........%d:[^:]+:%d*:(%d*)[:+]')
  return sub(row, 1, 1) ~= 'X' and number == cx.bulk_listed and run and sub(run, 1, 1) ~= 'N'
end

function queue.ops.list_jobs(cx, command)
  local listing, of, jobs, bytes = command.listing, nil, {}, 0
  if type(listing) == 'table' then listing, of = next(listing) end
  cx.only_type = command.type_id
  queue.begin_page(cx, command.cursor, command.limit)
  LISTINGS[listing](cx, of)
  for index, entry in ipairs(cx.entries) do
    if index > command.limit or bytes >= LIST_BYTES_MAX then
      return {jobs = jobs, next = entry.position}
    end
    local group, id = match(entry.name or '', '^([^:]+):(.+)$')
    local row, run
    if group and (not command.group or group == command.group) then
      row, run = unpack(call('HMGET', queue.rows_key(cx, group), id, ':' .. id))
    end
    if row and is_still_there(cx, row, run) then
      local head = queue.head_of(row)
      bytes =
        bytes + #row - #head + #(run and match(run, '^[^:]+:%d:[^:]+:%d+:%d+:%d+:%d+:[^:]*:(.*)$') or '')
      if not cx.only_type or match(head, '^X?..........%d:([^:]+)') == cx.only_type then
        entry.group, entry.id, entry.row, entry.run, entry.ready = group, id, head, run, listing == 'Ready'
        jobs[#jobs + 1] = queue.view_job(cx, entry)
      end
    end
  end
  return {jobs = jobs}
end
