#!lua flags=allow-oom,no-writes
-- list_snapshots: lists the newest snapshots of a group's congestion, oldest first. Read-only.
-- KEYS[1] the partition.
-- ARGV[1] time, [2] group, [3] limit.
-- Replies {at:waiting:speed:backoff…}.
--@include base
return call('LRANGE', prefix .. 'congestion:' .. ARGV[2] .. ':history', -tonumber(ARGV[3]), -1)
