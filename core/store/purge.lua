-- Remove members of a set of a shard.
--
-- KEYS: the set, msg, tries, expiry. ARGV: whether ids are wanted, then ids. Removes
-- those that are still members of the set, with all that belongs to them; returns how
-- many, and those that have no body now: a request that is sent twice names them again. A
-- member that left the set since its id was read is in use again, and its body must stay.
local gone, count, absent = {}, 0, {}
for i = 2, #ARGV do
  if redis.call('ZREM', KEYS[1], ARGV[i]) == 1 then
    count = count + 1
    gone[count] = ARGV[i]
    absent[#absent + 1] = ARGV[i]
  elseif redis.call('HEXISTS', KEYS[2], ARGV[i]) == 0 then
    absent[#absent + 1] = ARGV[i]
  end
end
for from = 1, count, 1000 do
  local last = math.min(from + 999, count)
  redis.call('HDEL', KEYS[2], unpack(gone, from, last))
  redis.call('HDEL', KEYS[3], unpack(gone, from, last))
  redis.call('ZREM', KEYS[4], unpack(gone, from, last))
end
return { count, ARGV[1] == '1' and absent or {} }
