#!lua flags=allow-oom,no-writes
-- list_activity: lists the changes in the activity log, the newest first. Read-only.
-- Key: the partition.

local function view(id, at, entry)
  local jobs, actor, kind, name, words = match(entry, '^(%d+)\n([^\n]*)\n([^\n]*)\n([^\n]*)\n(.*)$')
  return {
    at = tonumber(at), id = id, actor = actor, subject = kind ~= '' and {kind = kind, name = name} or nil,
    text = words, jobs = tonumber(jobs),
  }
end

local function is_wanted(entry, subject)
  if not subject then return true end
  return entry.subject and entry.subject.kind == subject.kind and entry.subject.name == subject.name
end

function activity.ops.list_activity(cx, command)
  local found, before, limit = {}, command.before and '(' .. text(command.before) or '+inf', command.limit
  for _ = 1, ACTIVITY_MAX / ACTIVITY_PAGE + 1 do
    local page = call('ZRANGE', cx.order, before, '-inf', 'BYSCORE', 'REV', 'LIMIT', 0, ACTIVITY_PAGE, 'WITHSCORES')
    if not page[1] then break end
    local ids = {}
    for index = 1, #page, 2 do ids[#ids + 1] = page[index] end
    for index, text_of in ipairs(call('HMGET', cx.entries, unpack(ids))) do
      local entry = view(ids[index], page[2 * index], text_of)
      if #found < limit and is_wanted(entry, command.subject) then found[#found + 1] = entry end
    end
    if #found == limit then break end
    before = '(' .. text(tonumber(page[#page]))
  end
  return {entries = found, next = #found == limit and found[limit].at or nil}
end
