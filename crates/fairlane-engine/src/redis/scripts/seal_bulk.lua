#!lua flags=allow-oom
-- seal_bulk: closes a bulk action for new jobs, so that it can become complete.
-- KEYS[1] the partition.
-- ARGV[1] time, [2] group, [3] bulk action, [4] jobs expected ('' any).
-- Replies {'sealed', fields of `show_bulk`…}, {'mismatch', jobs} or {'unknown'}.
--@include base
--@include rate
--@include lane
--@include write
--@include bulk
local expected, number = ARGV[4], bulk_number(ARGV[2], ARGV[3])
if not number then return {'unknown'} end
read_partition({'sequence'})
local bulk = bulk_state(number)
if bulk.sealed == 0 then
  if expected ~= '' and tonumber(expected) ~= bulk.total then return {'mismatch', text(bulk.total)} end
  bulk.sealed = 1
  review_bulk(bulk)
  write_all()
end
return show_bulk({'sealed'}, bulk)
