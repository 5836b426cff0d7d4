-- A worker's last request, `number:until:fence`. The fence is its batch, 0 if it got no jobs.

-- The answer to a request that was carried out before or comes too late, else nil.
local function answer_again(worker, number)
  local known = call('GET', prefix .. 'worker:' .. worker)
  if not known then return nil end
  local last, remembered_until, fence = match(known, '^(%d+):(%d+):(%d+)$')
  if tonumber(remembered_until) <= now or number > tonumber(last) then return nil end
  if number < tonumber(last) then return {'superseded', last} end
  local reply = {'jobs', '', fence}
  local padded = format('%016d', fence)
  local names = call('HGET', prefix .. 'lease:' .. padded, 'names')
  for name in string.gmatch(names or '', '[^\n]+') do
    local held = call('HGET', prefix .. 'in-flight', name)
    if held and sub(held, 1, 16) == padded then
      local group, id = match(name, '^([^:]+):(.+)$')
      local run, row = call('HGET', rows_key(group), ':' .. id), call('HGET', rows_key(group), id)
      local attempts = run and match(run, '^[^:]+:%d:[^:]+:%d+:(%d+)') or 0
      for _, item in ipairs({match(held, ':(%d:[^:]+)'), group, 1, 1, id, row, attempts + 1}) do reply[#reply + 1] = item end
    end
  end
  return reply
end

local function remember(worker, number, fence)
  local record = number .. ':' .. text(now + LEASE_US_MAX) .. ':' .. text(fence)
  call('SET', prefix .. 'worker:' .. worker, record, 'PX', text(LEASE_US_MAX / 1000))
end
