-- The state of one call, and the partition's own row.

-- The time of a call in microseconds. `arguments[1]` is set by tests only; empty means the server's
-- clock.
function kernel.time(arguments)
  if not call then bind() end
  local now = tonumber(arguments[1])
  if now then return now end
  local time = call('TIME')
  return time[1] * 1000000 + time[2]
end

-- Begins a call. `keys[1]` is the partition's key; every other key is its prefix and a name, so all
-- share its slot. `partition` has the fields that the operation uses, `partition_was` as read.
function kernel.begin(keys, arguments)
  local now = kernel.time(arguments)
  return {
    now = now, arguments = arguments, partition_key = keys[1], prefix = sub(keys[1], 1, -10), partition = {},
    partition_was = {},
  }
end

-- The text of a setting after a change: nil leaves it, an empty list clears it, and a list of one
-- sets it.
function kernel.patched(change, before, cleared, text_of)
  if not change then return before end
  return change[1] and text_of(change[1]) or cleared
end

-- The same for a flag, which a change sets or leaves.
function kernel.patched_flag(change, before)
  if change == nil then return before end
  return change and '1' or '0'
end

-- Runs an operation that gets its command and returns its reply as a table. The command is packed in
-- the second argument; its fields and those of the reply have the names that they have in core.
function kernel.run_packed(operation, cx)
  return cmsgpack.pack((operation(cx, cmsgpack.unpack(cx.arguments[2]))))
end

local function keep_fields(cx, fields, values, offset)
  local partition, was = cx.partition, cx.partition_was
  cx.partition_fields = fields
  for index = 1, #fields do
    local field, value = fields[index], values[index + offset]
    local default = TEXT_DEFAULTS[field]
    if default then
      value = value or default
    else
      value = tonumber(value or NUMBER_DEFAULTS[field] or 0)
    end
    partition[field], was[field] = value, value
  end
end

-- Reads fields of the partition, for an operation that only reads.
function kernel.read_fields(cx, fields)
  keep_fields(cx, fields, call('HMGET', cx.partition_key, unpack(fields)), 0)
end

-- A partition without our layout's version belongs to another program, or to a server that was emptied
-- after this engine connected.
function kernel.check_version(version)
  if version ~= 'LAYOUT_VERSION' then error({err = 'LAYOUT the partition has no layout LAYOUT_VERSION'}) end
end

-- Reads fields of the partition for an operation that may write, before its first write.
function kernel.read_partition(cx, fields)
  local values = call('HMGET', cx.partition_key, 'version', unpack(fields))
  kernel.check_version(values[1])
  keep_fields(cx, fields, values, 1)
end

-- Appends a field to the changes of a hash.
function kernel.change(changes, field, value)
  local count = #changes
  changes[count + 1], changes[count + 2] = field, value
end

function kernel.write_partition(cx)
  local partition, was, changes = cx.partition, cx.partition_was, {}
  for _, field in ipairs(cx.partition_fields) do
    local value = partition[field]
    if value ~= was[field] then
      kernel.change(changes, field, type(value) == 'number' and text(value) or value)
    end
  end
  if changes[1] then call('HSET', cx.partition_key, unpack(changes)) end
end
