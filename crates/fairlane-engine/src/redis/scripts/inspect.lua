#!lua flags=allow-oom,no-writes
-- inspect: looks and changes nothing.
-- KEYS[1] the partition.
-- ARGV[1] time, [2] what: job, group, type or whole, [3] its name (a job's is group:id), [4…] for the whole,
-- the settings' fields.
-- Replies '' where there is no such thing, else
-- job: {row, run or '', due time or '', what is held of it or '', deadline or ''}
-- group: {limits, backlog, in flight, then per lane with jobs: place, standing, park, backlog, returned}
-- type: {paused:concurrency:rate, in flight, active ×3, rate in thousandths a second or '', closed until or ''}
-- whole: {settings ×11 in the order asked, backlog, waiting, in flight, parked, completed, failed, active ×3, types…}
--@include base
--@include rate
--@include lane
--@include downstream
local what, name = ARGV[2], ARGV[3]
local looks = {}

function looks.job()
  local group, id = match(name, '^([^:]+):(.+)$')
  local row = call('HGET', rows_key(group), id)
  if not row then return '' end
  local place, cost = match(row, '^(%d:[^:]+):(%d*):', 11)
  local element = cost == '' and id or ':' .. cost .. ':' .. id
  local due = call('ZSCORE', prefix .. 'non-ready-queue', place .. ':' .. group .. ':' .. element)
  local held = call('HGET', prefix .. 'in-flight', name)
  local deadline = held and call('ZSCORE', prefix .. 'deadlines', sub(held, 17, 32))
  return {
    row, call('HGET', rows_key(group), ':' .. id) or '', due and text(tonumber(due)) or '', held or '',
    deadline and text(tonumber(deadline)) or '',
  }
end

function looks.group()
  local fields = call('HKEYS', prefix .. 'group:' .. name .. ':meta')
  if #fields == 0 then return '' end
  local group, places = group_state(name), {}
  local reply = {group.limits or '1:0:0:0:0:0', text(group.backlog), text(group.in_flight)}
  for _, field in ipairs(fields) do
    if sub(field, 1, 5) == 'lane:' then places[#places + 1] = sub(field, 6) end
  end
  table.sort(places, precedes)
  for _, place in ipairs(places) do
    local _, lane = group_state(name, place)
    local backlog = call('LLEN', prefix .. 'group:' .. name .. ':jobs:' .. place)
    local returned = call('LLEN', prefix .. 'group:' .. name .. ':returned:' .. place)
    if backlog + returned > 0 then
      for _, item in ipairs({place, lane.standing, text(lane.park), backlog, returned}) do reply[#reply + 1] = item end
    end
  end
  return reply
end

function looks.type()
  if call('SISMEMBER', prefix .. 'types', name) == 0 then return '' end
  local state = type_state(name)
  local milli = rate_milli(state)
  return {
    state.limits == '' and '0:0:0:0:0' or state.limits, text(state.in_flight), state[0].active, state[1].active,
    state[2].active, milli and text(milli) or '', state.closed_until > now and text(state.closed_until) or '',
  }
end

function looks.whole()
  local fields, reply, active, in_flight = {'backlog', 'completed', 'failed', unpack(ARGV, 4)}, {}, {0, 0, 0}, 0
  read_partition(fields)
  for index = 4, #fields do
    local value = partition[fields[index]]
    reply[#reply + 1] = type(value) == 'number' and text(value) or value
  end
  local types_known = call('SMEMBERS', prefix .. 'types')
  table.sort(types_known, precedes)
  for _, known in ipairs(types_known) do
    local state = type_state(known)
    in_flight = in_flight + state.in_flight
    for level = 0, 2 do active[level + 1] = active[level + 1] + state[level].active end
  end
  for _, item in ipairs({
    text(partition.backlog), call('ZCARD', prefix .. 'non-ready-queue'), text(in_flight), call('ZCARD', prefix .. 'parked'),
    text(partition.completed), text(partition.failed), active[1], active[2], active[3],
  }) do reply[#reply + 1] = item end
  for _, known in ipairs(types_known) do reply[#reply + 1] = known end
  return reply
end

return looks[what]()
