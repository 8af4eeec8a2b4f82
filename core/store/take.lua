-- Take messages out of their sets into the unack set: those of certain ids, or those that
-- have expired.
--
-- KEYS: expiry, msg, tries, ready, delayed, buried, unack. ARGV: now, the lowest and the
-- highest score of this request, indexes in ready, delayed and buried, count, max_bytes,
-- offset, whether it is a look alone, then the ids, if it is by ids.
--
-- Returns { members and scores, bodies, tries, offset, next }. A message that is taken is
-- in the unack set by a score that tells where it was; so a request that is sent twice
-- finds it again. It enters that set before it leaves the other: a Redis without memory
-- refuses the first, and the script ends there. What is buried, or gone, leaves the index
-- of what expires.
local by_id, is_look = #ARGV > 10, ARGV[10] == '1'
local taken = by_id and 0 or redis.call('ZCOUNT', KEYS[7], ARGV[2], ARGV[3])
local limit, left = tonumber(ARGV[7]), tonumber(ARGV[8])
local offset = tonumber(ARGV[9])
local base = -4503599627370496
local rows = {}
local sets = { { KEYS[4], tonumber(ARGV[4]), ARGV[3] },
               { KEYS[5], tonumber(ARGV[5]), ARGV[2] },
               by_id and { KEYS[6], tonumber(ARGV[6]) } or nil }
local function score_of(kind, set, id)
  if not by_id then return set[3] end
  local at = kind > 1 and tonumber(redis.call('ZSCORE', set[1], id)) or 0
  return string.format('%.0f', base - 4 * at - kind)
end
local function take(id)
  for kind, set in ipairs(sets) do
    local at = redis.call('ZRANK', set[1], id)
    if at and at < set[2] then return end
    if at then
      local score = score_of(kind, set, id)
      if not is_look then
        redis.call('ZADD', KEYS[7], score, id)
        redis.call('ZREM', set[1], id)
      end
      return score
    end
  end
  local score = redis.call('ZSCORE', KEYS[7], id)
  if by_id then return score and tonumber(score) <= base and score end
  if not score then
    offset = offset - redis.call('ZREM', KEYS[1], id)
  end
end
local is_end, wanted = false, {}
if by_id then
  for i = 11, #ARGV do wanted[i - 10] = ARGV[i] end
elseif taken == 0 then
  wanted = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT',
                      ARGV[9], 1000)
end
local n = 0
while n < #wanted and taken < limit and left > 0 do
  n = n + 1
  local score = take(wanted[n])
  if score then
    taken = taken + 1
    left = left - redis.call('HSTRLEN', KEYS[2], wanted[n])
    rows[#rows + 1] = wanted[n]
    rows[#rows + 1] = score
  end
end
if by_id then
  offset = n
elseif #wanted > 0 or taken == 0 then
  offset = offset + n
  is_end = n == #wanted and n < 1000
end
if not by_id then
  rows = redis.call('ZRANGEBYSCORE', KEYS[7], ARGV[2], ARGV[3], 'WITHSCORES')
end
local ids, bodies, tries = {}, {}, {}
for i = 1, #rows, 2 do ids[(i + 1) / 2] = rows[i] end
if #ids > 0 then
  bodies[1] = redis.call('HMGET', KEYS[2], unpack(ids))
  tries[1] = redis.call('HMGET', KEYS[3], unpack(ids))
end
local next = {}
if is_end then
  next = redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. ARGV[1], '+inf',
                    'WITHSCORES', 'LIMIT', 0, 1)
end
return { rows, bodies, tries, is_end and -1 or offset, next[2] or '0' }
