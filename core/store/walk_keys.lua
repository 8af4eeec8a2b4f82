-- Read a page of the broker's keys.
--
-- ARGV: cursor, count. Returns { cursor, name, type, ttl, name, ... }.
local scan = redis.call('SCAN', ARGV[1], 'MATCH', 'tide:*', 'COUNT', ARGV[2])
local out = { scan[1] }
for _, key in ipairs(scan[2]) do
  out[#out + 1] = key
  out[#out + 1] = redis.call('TYPE', key).ok
  out[#out + 1] = redis.call('PTTL', key)
end
return out
