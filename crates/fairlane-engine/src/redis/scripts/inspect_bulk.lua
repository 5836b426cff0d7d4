#!lua flags=allow-oom,no-writes
-- inspect_bulk: reads one bulk action. Read-only.
-- KEYS[1] the partition.
-- ARGV[1] time, [2] group, [3] bulk action.
-- Replies the fields of `show_bulk`, or {} if it does not exist.
--@include base
--@include rate
--@include lane
--@include write
--@include order
--@include waiting
--@include downstream
--@include bulk
--@include congestion
--@include views
local name = ARGV[2]
local number = bulk_number(name, ARGV[3])
return number and show_bulk({}, bulk_state(number)) or {}
