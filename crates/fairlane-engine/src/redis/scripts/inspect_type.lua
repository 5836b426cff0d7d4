#!lua flags=allow-oom,no-writes
-- inspect_type: reads one type. Read-only.
-- KEYS[1] the partition.
-- ARGV[1] time, [2] type.
-- Replies the view of `views.type`, or '' if the type does not exist.
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
if call('SISMEMBER', prefix .. 'types', ARGV[2]) == 0 then return '' end
return views.type(ARGV[2])
