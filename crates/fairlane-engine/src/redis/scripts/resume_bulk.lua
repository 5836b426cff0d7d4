#!lua flags=allow-oom
-- resume_bulk: lets the jobs of a held bulk action run again; those on hold go to the
-- head of their lanes.
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
if bulk.course == 'hold' and not is_final(bulk) then
  bulk.course = 'run'
  if call('EXISTS', bulk.key .. ':held') == 1 then sweep_later(bulk) end
end
write_all()
return show_bulk({}, bulk)
