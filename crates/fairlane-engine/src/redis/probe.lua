#!lua flags=allow-oom
-- probe: runs every command that the scripts use on a scratch key, which is removed afterwards. A
-- script that meets a forbidden command midway leaves its earlier writes, so permissions are
-- checked before the first write.
-- KEYS[1] the scratch key.
-- Replies {per command that failed: its name, the error}.
local key, failed = KEYS[1], {}

local function try(command, ...)
  local reply = redis.pcall(command, ...)
  if type(reply) == 'table' and reply.err then
    failed[#failed + 1] = command
    failed[#failed + 1] = reply.err
  end
end

-- Without DEL the scratch key would stay, so no other command is tried.
try('DEL', key)
if failed[1] then return failed end

try('TIME')
try('DBSIZE')
try('EXISTS', key)
try('SCAN', '0', 'MATCH', key, 'COUNT', '1')
try('SET', key, '1', 'PX', '1000')
try('MSET', key, '1')
try('GET', key)
try('DEL', key)

try('HSET', key, 'a', '1')
try('HSETNX', key, 'a', '1')
try('HINCRBY', key, 'a', '1')
try('HGET', key, 'a')
try('HMGET', key, 'a')
try('HGETALL', key)
try('HKEYS', key)
try('HLEN', key)
try('HEXISTS', key, 'a')
try('HSCAN', key, '0')
try('HSTRLEN', key, 'a')
try('HDEL', key, 'a')
try('DEL', key)

try('RPUSH', key, '1', '2', '3')
try('LPUSH', key, '0')
try('LLEN', key)
try('LINDEX', key, '0')
try('LRANGE', key, '0', '-1')
try('LPOS', key, '2')
try('LREM', key, '1', '2')
try('LTRIM', key, '0', '10')
try('LPOP', key)
try('DEL', key)

try('SADD', key, 'a')
try('SCARD', key)
try('SISMEMBER', key, 'a')
try('SMISMEMBER', key, 'a')
try('SMEMBERS', key)
try('SREM', key, 'a')
try('DEL', key)

try('ZADD', key, '1', 'a', '2', 'b')
try('ZCARD', key)
try('ZCOUNT', key, '-inf', '+inf')
try('ZSCORE', key, 'a')
try('ZMSCORE', key, 'a')
try('ZRANK', key, 'a')
try('ZREVRANK', key, 'a')
try('ZRANGE', key, '0', '-1')
try('ZREVRANGE', key, '0', '-1')
try('ZSCAN', key, '0')
try('ZPOPMIN', key)
try('RENAME', key, key)
try('ZREM', key, 'b')
try('UNLINK', key)
try('DEL', key)
return failed
