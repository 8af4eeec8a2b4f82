-- Become the holder if the one before is still there; gives how many writes are counted by
-- then, or 0.
--
-- KEYS: the holder, {tide}:cluster. ARGV: the incarnation that was seen, a secret for {tide}:cluster
-- if it has none, where other brokers reach the new holder (both '': it lets none in), fields and
-- values of the new one.
if (redis.call('HGET', KEYS[1], 'incarnation') or '') ~= ARGV[1] then return 0 end
local writes = (tonumber(redis.call('HGET', KEYS[1], 'writes')) or 0) + 1
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'writes', writes, unpack(ARGV, 4))
if ARGV[3] ~= '' then
  redis.call('HSET', KEYS[1], 'at', ARGV[3])
  redis.call('HSETNX', KEYS[2], 'secret', ARGV[2])
end
return writes
