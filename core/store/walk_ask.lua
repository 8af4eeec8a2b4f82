-- Answer questions about single keys and members.
--
-- KEYS and ARGV: of each question its key, its verb and member.
local out = {}
for i, key in ipairs(KEYS) do
  local verb, value = ARGV[2 * i - 1]
  if verb == 'EXISTS' then
    value = redis.call(verb, key)
  elseif verb == 'ZCOUNT' then
    local from, to = string.match(ARGV[2 * i], '(%S+) (%S+)')
    value = redis.call(verb, key, from, to)
    value = value > 1 and '2' or value
  else
    value = redis.call(verb, key, ARGV[2 * i])
  end
  out[i] = value == 1 and '1' or value ~= 0 and value
end
return out
