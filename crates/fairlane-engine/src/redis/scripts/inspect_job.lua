#!lua flags=allow-oom,no-writes
-- inspect_job: reads one job. Read-only.
-- KEYS[1] the partition.
-- ARGV[1] time, [2] name (group:id).
-- Replies the view of `views.job`, or '' if the job does not exist.
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
return views.job(ARGV[2])
