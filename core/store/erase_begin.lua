-- Begin to remove a queue or a topic: its definition goes, and a tombstone tells what is
-- left to be removed, so that a start after a crash goes on with it.
--
-- KEYS: the tombstones, the table, the pauses; of a topic also the set of topics and that
-- of the topic's partitions. ARGV: the name, the tombstone, how many shards.
--
-- A script and no transaction: Redis runs this one also while its memory is out, since its
-- first write is a removal. What could fail behind that is looked at before.
redis.call('HLEN', KEYS[1])
redis.call('HDEL', KEYS[2], ARGV[1])
redis.call('HSET', KEYS[1], ARGV[2], ARGV[3])
redis.call('HDEL', KEYS[3], 'in ' .. ARGV[1], 'out ' .. ARGV[1])
if KEYS[4] then
  local groups = 'group ' .. ARGV[1] .. ' '
  for _, pause in ipairs(redis.call('HKEYS', KEYS[3])) do
    if pause:sub(1, #groups) == groups then redis.call('HDEL', KEYS[3], pause) end
  end
  redis.call('SREM', KEYS[4], ARGV[1])
  redis.call('UNLINK', KEYS[5])
end
return 1
