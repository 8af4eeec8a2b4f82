-- Remove the end of a partition, with its publish ids.
--
-- KEYS: the publish ids, the days. ARGV: the offset, the ids.
--
-- A script, so that both go at once: an id without its message would lose what is
-- published again. It passes while memory is out, as log_trim.lua does.
for i = 2, #ARGV, 1000 do
  redis.call('ZREM', KEYS[1], unpack(ARGV, i, math.min(i + 999, #ARGV)))
end
for i = 2, #KEYS do
  redis.call('ZREMRANGEBYSCORE', KEYS[i], ARGV[1], '+inf')
end
return 0
