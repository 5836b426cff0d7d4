#!lua flags=allow-oom,no-writes
-- list_jobs: lists jobs page by page, in the order of the place they are in. Read-only.
-- KEYS[1] the partition.
-- ARGV[1] time, [2] listing, [3] group and [4] bulk action of that listing, or '', [5] only jobs of
-- this group or '', [6] only jobs of this type or '', [7] cursor, [8] most entries to read.
-- Replies {next cursor or '', then per job: group, id, `views.line` without the payload …}.
--@include base
--@include rate
--@include lane
--@include write
--@include order
--@include downstream
--@include bulk
--@include views
local listing, of_group, of_bulk, only_group, only_type = ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local cursor, limit = tonumber(ARGV[7]), tonumber(ARGV[8])
--@include pages
local listings = {}

-- From `level:type:group:id`.
local function name_of(member)
  return match(member, '^%d:[^:]+:([^:]+:[^:]+)')
end

function listings.pending()
  local keys, part = {}, prefix .. 'group:' .. of_group
  for _, place in ipairs(places_of(group_state(of_group))) do
    if only_type == '' or sub(place, 3) == only_type then
      keys[#keys + 1] = part .. ':returned:' .. place
      keys[#keys + 1] = part .. ':jobs:' .. place
    end
  end
  from_lists(keys, function(id) return of_group .. ':' .. id end)
end

function listings.ready()
  local known, keys = call('SMEMBERS', prefix .. 'types'), {}
  table.sort(known, precedes)
  for _, name in ipairs(known) do
    if only_type == '' or name == only_type then keys[#keys + 1] = prefix .. 'ready-queue:' .. name end
  end
  from_lists(keys, name_of)
end

function listings.held()
  local number = bulk_number(of_group, of_bulk)
  from_lists(number and {prefix .. 'bulk:' .. number .. ':held'} or {}, name_of)
end

function listings.waiting()
  local page = from_order('non-ready-queue')
  for index = 1, #page, 2 do
    add(cursor + (index - 1) / 2, name_of(page[index]), text(tonumber(page[index + 1])))
  end
end

function listings.dead()
  local page = from_order('failed')
  for index = 1, #page, 2 do add(cursor + (index - 1) / 2, page[index]) end
end

function listings.in_flight()
  from_chunks(function(rank)
    local batch, deadline = unpack(call('ZRANGE', prefix .. 'deadlines', text(rank), text(rank), 'WITHSCORES'))
    if not batch then return nil end
    local names = parts_of('\n' .. (call('HGET', prefix .. 'lease:' .. batch, 'names') or ''), '')
    local holds = names[1] and call('HMGET', prefix .. 'in-flight', unpack(names)) or {}
    -- A job with a lease that has ended, or moved to a later batch, no longer
    -- belongs to this batch.
    for index, held in ipairs(holds) do
      if not held or sub(held, 17, 32) ~= batch then names[index] = false end
    end
    return names, holds, text(tonumber(deadline))
  end)
end

local function from_list_of_chunks(key, before)
  from_chunks(function(number)
    local chunk = call('LINDEX', key, text(number))
    return chunk and parts_of(chunk, before)
  end)
end

function listings.finished()
  from_list_of_chunks(prefix .. 'completed', '')
end

local bulk_listed
function listings.ended()
  bulk_listed = bulk_number(of_group, of_bulk)
  if bulk_listed then from_list_of_chunks(prefix .. 'bulk:' .. bulk_listed .. ':ended', of_group .. ':') end
end

-- Whether a job that ended in the listed bulk action still belongs to it: not if it was requeued,
-- or enqueued again.
local function is_still_there(row, run)
  if not bulk_listed then return true end
  local number = match(row, '^..........%d:[^:]+:%d*:(%d*)[:+]')
  return sub(row, 1, 1) ~= 'X' and number == bulk_listed and run and sub(run, 1, 1) ~= 'N'
end

listings[listing]()
local reply, bytes, ready = {''}, 0, listing == 'ready'
for index, entry in ipairs(entries) do
  if index > limit or bytes >= LIST_BYTES_MAX then
    reply[1] = text(entry.position)
    break
  end
  local group, id = match(entry.name or '', '^([^:]+):(.+)$')
  local row, run
  if group and (only_group == '' or group == only_group) then
    row, run = unpack(call('HMGET', rows_key(group), id, ':' .. id))
  end
  if row and is_still_there(row, run) then
    local head = head_of(row)
    bytes = bytes + #row - #head + #(run and match(run, '^[^:]+:%d:[^:]+:%d+:%d+:%d+:%d+:[^:]*:(.*)$') or '')
    if only_type == '' or match(head, '^X?..........%d:([^:]+)') == only_type then
      reply[#reply + 1], reply[#reply + 2] = group, id
      local shown = views.line(head, run, entry.due, entry.held, entry.deadline, ready)
      for _, item in ipairs(shown) do reply[#reply + 1] = item end
    end
  end
end
return reply
