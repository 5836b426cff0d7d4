#!lua flags=allow-oom
-- resume_bulk: a held bulk action's jobs run again; those set aside go before the rest of their lanes.
-- KEYS[1] the partition.
-- ARGV[1] time, [2] group, [3] bulk action.
-- Replies what is to be seen of it, or nothing where there is none.
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
