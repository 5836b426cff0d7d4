-- For tests: every key under a prefix with its type and contents, in one call.
-- KEYS[1] the partition. Replies {key without prefix, type, contents} per key.
local prefix = string.sub(KEYS[1], 1, -10)
local reply = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
  if string.sub(key, 1, #prefix) == prefix then
    local kind = redis.call('TYPE', key).ok
    local contents
    if kind == 'string' then contents = redis.call('GET', key)
    elseif kind == 'hash' then contents = redis.call('HGETALL', key)
    elseif kind == 'list' then contents = redis.call('LRANGE', key, 0, -1)
    elseif kind == 'zset' then contents = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
    else contents = redis.call('SMEMBERS', key) end
    reply[#reply + 1] = {string.sub(key, #prefix + 1), kind, contents}
  end
end
return reply
