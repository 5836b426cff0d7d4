#!lua flags=allow-oom
-- promote: returns due jobs to their lanes, where fair order and gates apply again.
-- KEYS[1] the partition.
-- ARGV[1] time, [2] most jobs.
-- Replies {jobs moved, µs until the next is due or ''}.
--@include base
--@include rate
--@include lane
--@include write
--@include order
--@include waiting
read_partition({'sequence', 'classic', 'alpha'})
local moved = promote_due(tonumber(ARGV[2]))
local wake_at = first_score('non-ready-queue')
write_all()
return {moved, wake_at and text(wake_at - now) or ''}
