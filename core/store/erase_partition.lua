-- Remove all keys of a partition.
--
-- KEYS: the state, the groups, the publish ids. The days are those that the state names;
-- their keys have its hash tag. It passes while memory is out.
for _, day in ipairs(redis.pcall('HKEYS', KEYS[1])) do
  if #day == 8 then redis.call('UNLINK', KEYS[1] .. ':' .. day) end
end
return redis.call('UNLINK', unpack(KEYS))
