-- Split the store into cells: who holds all of it gives it up.
--
-- KEYS: the holder. ARGV: the incarnation, the string that tells how it is split.
if redis.call('HGET', KEYS[1], 'incarnation') ~= ARGV[1] then return 0 end
redis.call('DEL', KEYS[1])
redis.call('SET', KEYS[1], ARGV[2])
return 1
