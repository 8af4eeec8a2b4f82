-- Read a page of the broker's keys.
--
-- ARGV: cursor, count. Returns { cursor, name, type, ttl, name, ... }.
-- (Of a shard they begin with "tide:{", all others with "{tide}:". A pattern has no "or".)
local scan = redis.call('SCAN', ARGV[1], 'MATCH', '*tide*:*', 'COUNT', ARGV[2])
local out = { scan[1] }
for _, key in ipairs(scan[2]) do
  if string.find(key, '^tide:') or string.find(key, '^{tide}:') then
    out[#out + 1] = key
    out[#out + 1] = redis.call('TYPE', key).ok
    out[#out + 1] = redis.call('PTTL', key)
  end
end
return out
