-- Put messages that are in no set back among the ready ones.
--
-- KEYS: msg, the sets, ready first. ARGV: where the scan goes on, how many at a time.
-- Returns where it goes on next ("0": it is over) and how many were put back. A scan
-- brings the bodies too: few at a time. The rank is their eighth element.
local scan = redis.call('HSCAN', KEYS[1], ARGV[1], 'COUNT', ARGV[2])
local count = 0
for i = 1, #scan[2], 2 do
  local id, has = scan[2][i], false
  for k = 2, #KEYS do
    has = has or redis.call('ZSCORE', KEYS[k], id)
  end
  if not has then
    local ok, body = pcall(cmsgpack.unpack, scan[2][i + 1])
    local rank = ok and type(body) == 'table' and tonumber(body[8])
    redis.call('ZADD', KEYS[2], string.format('%.17g', rank or 0), id)
    count = count + 1
  end
end
return { scan[1], count }
