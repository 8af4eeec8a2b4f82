-- Remove the tries of messages that are gone.
--
-- KEYS: tries, msg. ARGV: where the scan goes on, how many at a time. Returns where it goes
-- on next ("0": it is over) and how many were removed.
local scan = redis.call('HSCAN', KEYS[1], ARGV[1], 'COUNT', ARGV[2])
local count = 0
for i = 1, #scan[2], 2 do
  if redis.call('HEXISTS', KEYS[2], scan[2][i]) == 0 then
    count = count + redis.call('HDEL', KEYS[1], scan[2][i])
  end
end
return { scan[1], count }
