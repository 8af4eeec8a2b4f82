-- Give the store back. The incarnation stays: a former holder that comes back must not find
-- its own.
--
-- KEYS: the holder. ARGV: the incarnation.
if redis.call('HGET', KEYS[1], 'incarnation') == ARGV[1] then redis.call('HDEL', KEYS[1], 'pid') end
return 1
