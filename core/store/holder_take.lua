-- Become the holder if the one before is still there; gives how many writes are counted by
-- then, or 0.
--
-- KEYS: the holder. ARGV: the incarnation that was seen, fields and values of the new one.
if (redis.call('HGET', KEYS[1], 'incarnation') or '') ~= ARGV[1] then return 0 end
local writes = (tonumber(redis.call('HGET', KEYS[1], 'writes')) or 0) + 1
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'writes', writes, unpack(ARGV, 2))
return writes
