-- Become the owner of a cell if the one before is still there; gives how many writes are
-- counted by then, or 0.
--
-- KEYS: the record of the cell, the string that tells how the store is split, {tide}:cluster;
-- at the master of {tide} also the records of the other cells. ARGV: the incarnation that was
-- seen, that string, the epoch of the split, a secret for {tide}:cluster if it has none, where other
-- brokers reach the new owner ('': it lets none in), its node, fields and values of the new record.
--
-- Other masters learn of a split from the first owner that comes. A node that lives elsewhere
-- would make the same message ids.
local split = redis.pcall('GET', KEYS[2])
local is_other = split ~= ARGV[2]
if is_other and #KEYS > 3 then return 0 end
if is_other then
  local epoch = type(split) == 'table' and redis.call('HGET', KEYS[2], 'epoch')
    or string.match(split or '', '(%d+)$')
  if (tonumber(epoch or 0) or 0) > tonumber(ARGV[3]) then return 0 end
end
if (redis.call('HGET', KEYS[1], 'incarnation') or '') ~= ARGV[1] then return 0 end
for i = 4, #KEYS do
  if redis.call('HGET', KEYS[i], 'node') == ARGV[6] and redis.call('HEXISTS', KEYS[i], 'pid') == 1 then return 0 end
end
local writes = (tonumber(redis.call('HGET', KEYS[1], 'writes')) or 0) + 1
redis.call('DEL', KEYS[1])
if is_other then
  redis.call('DEL', KEYS[2])
  redis.call('SET', KEYS[2], ARGV[2])
end
redis.call('HSET', KEYS[1], 'writes', writes, 'node', ARGV[6], unpack(ARGV, 7))
if ARGV[5] ~= '' then
  redis.call('HSET', KEYS[1], 'at', ARGV[5])
  redis.call('HSETNX', KEYS[3], 'secret', ARGV[4])
end
return writes
