-- Remove a topic.
--
-- KEYS: the tables of topics and pauses, the set of topics, that of the topic's
-- partitions; then the state, the groups and the publish ids of each partition. ARGV: the
-- topic. The days are those that the states name. As with a queue the definition goes
-- last, and it passes while memory is out.
--
-- (In a Redis Cluster it would be one script for each partition: its keys, those of its
-- days too, have one hash tag.)
for i = 5, #KEYS, 3 do
  for _, day in ipairs(redis.pcall('HKEYS', KEYS[i])) do
    if #day == 8 then redis.call('UNLINK', KEYS[i] .. ':' .. day) end
  end
  redis.call('UNLINK', KEYS[i], KEYS[i + 1], KEYS[i + 2])
end
redis.call('UNLINK', KEYS[4])
redis.call('SREM', KEYS[3], ARGV[1])
redis.call('HDEL', KEYS[2], 'in ' .. ARGV[1], 'out ' .. ARGV[1])
return redis.call('HDEL', KEYS[1], ARGV[1])
