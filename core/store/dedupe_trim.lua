-- Forget the publish ids that are old.
--
-- KEYS: dedupe. ARGV: the last score, how many at most. Returns how many were removed.
--
-- By score, so that a script that is sent twice removes nothing that is good.
local old = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', 0, ARGV[2])
for i = 1, #old, 1000 do
  redis.call('ZREM', KEYS[1], unpack(old, i, math.min(i + 999, #old)))
end
return #old
