#!lua flags=allow-oom,no-writes
-- inspect: looks and changes nothing.
-- KEYS[1] the partition.
-- ARGV[1] time, [2] what, [3…] its name and what else is asked:
-- job name (group:id) | group name | type name | bulk group name | bulks group, after number, limit, which (bulks
-- unfinished) | congestion group | history group, limit | groups after ('' first), limit | whole '', the settings' fields.
-- Replies as `looks` says for a job, group or type; '' or {} where there is no such thing; else
-- bulk: {what is to be seen of it…}; bulks: {next number or '', what is to be seen of each…}
-- congestion: {waiting, speed, backoff in ms, base in ms, throttles, ended}; history: {at:waiting:speed:backoff…}
-- groups: {name, backlog, in flight, waiting, total, done, backoff in ms, limits …}
-- whole: {settings in the order asked, backlog, waiting, in flight, parked, completed, failed, bytes stored, active
-- groups, aggregating, sweeping, saved spins, active ×3, types…}
--@include base
--@include rate
--@include lane
--@include write
--@include order
--@include waiting
--@include downstream
--@include bulk
--@include congestion
--@include looks
local what, name = ARGV[2], ARGV[3]

function looks.bulk()
  local number = bulk_number(name, ARGV[4])
  return number and show_bulk({}, bulk_state(number)) or {}
end

function looks.bulks()
  local after, limit, key = ARGV[4], tonumber(ARGV[5]), prefix .. 'group:' .. name .. ':' .. ARGV[6]
  local page = call('ZRANGE', key, '(' .. after, '+inf', 'BYSCORE', 'LIMIT', 0, limit + 1, 'WITHSCORES')
  local shown, reply = min(#page / 2, limit), {''}
  if #page / 2 > limit then reply[1] = text(tonumber(page[2 * limit])) end
  for index = 1, shown do show_bulk(reply, bulk_state(text(tonumber(page[2 * index])))) end
  return reply
end

function looks.congestion()
  local group, settings = group_state(name), congestion_settings()
  if call('EXISTS', group.key) == 0 then return '' end
  local known, waiting, speed = record(group), nil, nil
  if settings.congestion_enabled == 0 then return {0, 0, 0, 0, text(known.throttles), text(group.done - known.since)} end
  read_fields({'classic'})
  if partition.classic == 1 then
    waiting, speed = known.waiting, group_speed()
  else
    local newest = call('LINDEX', history_key(group), -1)
    waiting, speed = group.backlog, newest and tonumber(match(newest, '^%d+:%d+:(%d+)')) or 0
    if group.flow then
      local count, period_ms = match(group.rate, '^(%d+):(%d+)')
      speed = floor(floor(count * MILLI * 1000 / period_ms) / 1000)
    end
  end
  return {
    text(waiting), text(speed), text(known.backoff), text(settings.base_backoff_ms), text(known.throttles),
    text(group.done - known.since),
  }
end

function looks.history()
  return call('LRANGE', prefix .. 'congestion:' .. name .. ':history', -tonumber(ARGV[4]), -1)
end

function looks.groups()
  local from, reply = name == '' and '-' or '(' .. name, {}
  for _, member in ipairs(call('ZRANGE', prefix .. 'active-groups', from, '+', 'BYLEX', 'LIMIT', 0, ARGV[4])) do
    local group = group_state(member)
    local known = record(group)
    reply[#reply + 1] = member
    for _, number in ipairs({group.backlog, group.in_flight, known.waiting, known.total, group.done, known.backoff}) do
      reply[#reply + 1] = text(number)
    end
    reply[#reply + 1] = limits_text(group)
  end
  return reply
end

function looks.whole()
  local fields, reply, active, in_flight = {'backlog', 'completed', 'saved_spins', 'stored_bytes', unpack(ARGV, 4)}, {}, {0, 0, 0}, 0
  read_fields(fields)
  for index = 5, #fields do
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
    text(partition.completed), call('ZCARD', prefix .. 'failed'), text(partition.stored_bytes),
    call('ZCARD', prefix .. 'active-groups'), call('ZCARD', prefix .. 'aggregating'), call('LLEN', prefix .. 'sweeping'),
    text(partition.saved_spins), active[1], active[2], active[3],
  }) do reply[#reply + 1] = item end
  for _, known in ipairs(types_known) do reply[#reply + 1] = known end
  return reply
end

return looks[what](name)
