-- Read a page of the broker's keys. In a Redis Cluster a master may have keys of a slot
-- that is being moved: they are left to the master that has it.
--
-- ARGV: cursor, count. Returns { cursor, name, type, ttl, name, ... }.
-- (Of a shard they begin with "tide:{", all others with "{tide}:". A pattern has no "or".)
local scan = redis.call('SCAN', ARGV[1], 'MATCH', '*tide*:*', 'COUNT', ARGV[2])
local out = { scan[1] }
for _, key in ipairs(scan[2]) do
  if string.find(key, '^tide:') or string.find(key, '^{tide}:') then
    local type = redis.pcall('TYPE', key)
    if type.ok then
      out[#out + 1] = key
      out[#out + 1] = type.ok
      out[#out + 1] = redis.call('PTTL', key)
    elseif not string.find(type.err, 'non local key', 1, true) then
      return type
    end
  end
end
return out
