-- The start of every script: the clock, read once; the key prefix; the partition's own row.
-- KEYS[1] is the partition's key; every other key is its prefix and a name, so all share its slot.
-- ARGV[1] is the time in microseconds, set by tests only; empty means the server's clock.
local call, format, sub, match, byte = redis.call, string.format, string.sub, string.match, string.byte
local floor, ceil, min, max = math.floor, math.ceil, math.min, math.max
local partition_key = KEYS[1]
local prefix = sub(partition_key, 1, -10)
local now = tonumber(ARGV[1])
if not now then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end

-- Formats an integer: the conversion of Lua rounds beyond fourteen digits.
local function text(number)
  return format('%d', number)
end

-- Compares by bytes; the comparison of Lua follows the server's locale.
local function precedes(left, right)
  for index = 1, min(#left, #right) do
    local a, b = byte(left, index), byte(right, index)
    if a ~= b then return a < b end
  end
  return #left < #right
end

-- A job's name among jobs of many lanes: `place:group:id`, then `:number` of its
-- bulk action if any.
local function placed_name(place, name, number)
  return place .. ':' .. name .. (number ~= '' and ':' .. number or '')
end

-- The fields of the partition that a script uses: current and as read.
local partition, partition_was, partition_fields = {}, {}, nil

-- Reads fields of the partition, for a read-only script.
local function read_fields(fields)
  local values, defaults = call('HMGET', partition_key, unpack(fields)), DEFAULTS
  partition_fields = fields
  for index = 1, #fields do
    local field, value = fields[index], values[index]
    local default = defaults[field] or 0
    if not value then
      value = default
    elseif type(default) == 'number' then
      value = tonumber(value)
    end
    partition[field], partition_was[field] = value, value
  end
end

-- The same for a script that may write, before its first write. A partition without our layout's
-- version belongs to another program, or to a server that was emptied after this engine connected.
local function read_partition(fields)
  fields[#fields + 1] = 'version'
  read_fields(fields)
  if partition.version ~= LAYOUT_VERSION then error({err = 'LAYOUT the partition has no layout ' .. text(LAYOUT_VERSION)}) end
end

local function write_partition()
  local changes, count = {}, 0
  for index = 1, #partition_fields do
    local field = partition_fields[index]
    local value = partition[field]
    if value ~= partition_was[field] then
      changes[count + 1], changes[count + 2] = field, type(value) == 'number' and text(value) or value
      count = count + 2
    end
  end
  if count > 0 then call('HSET', partition_key, unpack(changes)) end
end
