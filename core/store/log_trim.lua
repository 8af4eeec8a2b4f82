-- Remove the front of a partition.
--
-- KEYS: the state, the day in which the log begins now, the days to remove. ARGV: where
-- it begins, the names of the days. Of the batches that begin at the start or before it
-- the last stays: it has the start, or it tells a broker where the log ends. Gives how
-- many more are to be removed: Redis takes some 50 us for a batch of 64 KiB.
--
-- A script, so that nobody reads between, and which passes while memory is out: Redis
-- looks at its first write alone, and a removal is none that it refuses.
redis.call('HDEL', KEYS[1], '')
redis.call('HSET', KEYS[1], 'start', ARGV[1])
for i = 2, #ARGV do
  redis.call('HDEL', KEYS[1], ARGV[i])
  redis.call('UNLINK', KEYS[i + 1])
end
local below = redis.call('ZCOUNT', KEYS[2], '-inf', ARGV[1]) - 1
if below < 1 then return 0 end
local now = math.min(below, 256)
redis.call('ZREMRANGEBYRANK', KEYS[2], 0, now - 1)
return below - now
