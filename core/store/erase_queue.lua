-- Remove a queue.
--
-- KEYS: the tables of queues and pauses, all keys of the shards. ARGV: the queue. A
-- script and no transaction: Redis runs this one also while its memory is out.
redis.call('UNLINK', unpack(KEYS, 3))
redis.call('HDEL', KEYS[2], 'in ' .. ARGV[1], 'out ' .. ARGV[1])
return redis.call('HDEL', KEYS[1], ARGV[1])
