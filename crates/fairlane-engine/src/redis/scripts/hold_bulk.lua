#!lua flags=allow-oom
-- hold_bulk: sets the bulk action's jobs aside when their turn comes; running jobs continue.
-- KEYS[1] the partition.
-- ARGV[1] time, [2] group, [3] bulk action.
-- Replies the fields of `show_bulk`, or {} if it does not exist.
--@include base
--@include rate
--@include lane
--@include write
--@include bulk
local number = bulk_number(ARGV[2], ARGV[3])
if not number then return {} end
read_partition({'sequence'})
local bulk = bulk_state(number)
if not is_final(bulk) and bulk.state ~= 'AGGREGATING' then bulk.course = 'hold' end
write_all()
return show_bulk({}, bulk)
