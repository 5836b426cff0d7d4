#!lua flags=allow-oom,no-writes
-- inspect_group: reads one group and its lanes. Read-only.
-- KEYS[1] the partition.
-- ARGV[1] time, [2] group.
-- Replies the view of `views.group`, or '' if the group does not exist.
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
return views.group(ARGV[2])
