-- A worker's last request, `number:until:fence`. The fence is its batch, 0 if it got no jobs.

-- The reply to a request that was applied before or is outdated, else nil.
function queue.answer_again(cx, worker, number)
  local known = call('GET', cx.prefix .. 'worker:' .. worker)
  if not known then return nil end
  local last, remembered_until, fence = match(known, '^(%d+):(%d+):(%d+)$')
  if tonumber(remembered_until) <= cx.now or number > tonumber(last) then return nil end
  if number < tonumber(last) then return {'superseded', last} end
  local reply, shown = {'jobs', '', fence, 0}, {}
  local padded = format('%016d', fence)
  local names, jobs = call('HGET', cx.prefix .. 'lease:' .. padded, 'names'), {}
  for name in string.gmatch(names or '', '[^\n]+') do
    local held = call('HGET', cx.prefix .. 'in-flight', name)
    if held and sub(held, 1, 16) == padded then
      local group, id = match(name, '^([^:]+):(.+)$')
      local run, row = call('HGET', queue.rows_key(cx, group), ':' .. id),
        call('HGET', queue.rows_key(cx, group), id)
      local attempts = run and match(run, '^[^:]+:%d:[^:]+:%d+:(%d+)') or 0
      for _, item in ipairs({match(held, ':(%d:[^:]+)'), group, 1, 1, id, row, attempts + 1}) do
        jobs[#jobs + 1] = item
      end
      local number = match(held, '^%a:%d:[^:]+:%d+:(%d*):', 33)
      local bulk = number ~= '' and not shown[number] and call('HGET', cx.prefix .. 'bulk:' .. number, 'name')
      if bulk then
        shown[number], reply[4] = true, reply[4] + 1
        reply[#reply + 1] = number
        reply[#reply + 1] = match(bulk, ':(.+)$')
      end
    end
  end
  for _, item in ipairs(jobs) do reply[#reply + 1] = item end
  return reply
end

function queue.remember(cx, worker, number, fence)
  local record = number .. ':' .. text(cx.now + LEASE_US_MAX) .. ':' .. text(fence)
  call('SET', cx.prefix .. 'worker:' .. worker, record, 'PX', text(LEASE_US_MAX / 1000))
end
