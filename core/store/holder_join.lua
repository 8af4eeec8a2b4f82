-- Become the holder of all of a store that is split, if no cell has another owner than was
-- seen. It is not split any more. Gives 1, or 0. At another master of a Redis Cluster, where
-- there are no cells to compare, the string goes if it is older.
--
-- KEYS: the string that tells how it is split; at the master of {tide} also {tide}:ids and the
-- records of the cells. ARGV: that string, or '' at other masters; the new epoch, the incarnations
-- that were seen, fields and values of the new record.
local split = redis.pcall('GET', KEYS[1])
if type(split) ~= 'string' then return 0 end
if ARGV[1] == '' then
  if tonumber(string.match(split, '(%d+)$')) < tonumber(ARGV[2]) then redis.call('DEL', KEYS[1]) end
  return 1
end
if split ~= ARGV[1] then return 0 end
local writes, cells = 1, #KEYS - 2
for i = 1, cells do
  if (redis.call('HGET', KEYS[2 + i], 'incarnation') or '') ~= ARGV[2 + i] then return 0 end
  writes = math.max(writes, (tonumber(redis.call('HGET', KEYS[2 + i], 'writes')) or 0) + 1)
end
redis.call('DEL', unpack(KEYS, 3))
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'writes', writes, 'epoch', ARGV[2], unpack(ARGV, 3 + cells))
-- An orderly end of a cell is none of all of them.
for _, field in ipairs(redis.call('HKEYS', KEYS[2])) do
  if string.find(field, '^clean') then redis.call('HDEL', KEYS[2], field) end
end
return 1
