-- Find the members of a set that have been tried.
--
-- KEYS: tries, the set. ARGV: where the scan goes on, how many at a time. Returns where
-- it goes on next ("0": it is over) and the ids.
local scan = redis.call('HSCAN', KEYS[1], ARGV[1], 'COUNT', ARGV[2])
local ids = {}
for i = 1, #scan[2], 2 do
  if redis.call('ZSCORE', KEYS[2], scan[2][i]) then
    ids[#ids + 1] = scan[2][i]
  end
end
return { scan[1], ids }
