-- The start of the library and of every script: names that all files use. They are constants. What
-- belongs to one call is in the table `cx`, which `begin` makes and functions get as an argument.
-- Small numbers as text, from 0 on: formatting one takes as long as fifty lookups.
local SMALL_TEXTS = SMALL_NUMBERS
-- Fields of the partition with a default other than 0.
local TEXT_DEFAULTS, NUMBER_DEFAULTS = TEXT_SETTINGS, NUMBER_SETTINGS

-- Functions of the server and of Lua. They do not exist while a library is loaded, so the first call
-- binds them.
local call, try, format, sub, match, find, byte, floor, ceil, min, max

local function bind()
  call, try = redis.call, redis.pcall
  format, sub, match, find, byte = string.format, string.sub, string.match, string.find, string.byte
  floor, ceil, min, max = math.floor, math.ceil, math.min, math.max
end

-- Formats an integer: the conversion of Lua rounds beyond fourteen digits.
local function text(number)
  return SMALL_TEXTS[number] or format('%d', number)
end

-- The number, or nil if it is 0.
local function positive(number)
  return number > 0 and number or nil
end

-- Compares by bytes; the comparison of Lua follows the server's locale.
local function precedes(left, right)
  for index = 1, min(#left, #right) do
    local a, b = byte(left, index), byte(right, index)
    if a ~= b then return a < b end
  end
  return #left < #right
end
