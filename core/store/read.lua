-- Read members of a set of a shard, with bodies and tries.
--
-- KEYS: the set, msg, tries. ARGV: the bytes of bodies that are left (0: no bodies), then
-- 'range', first index, last index; or
-- 'from', score and id of the place to begin at, count; or
-- 'ids', the ids that are wanted where they are members.
--
-- Returns { members and scores, bodies, tries }: the first a flat list, the others lists
-- of lists, chunk by chunk, with nil where there is none. There are fewer bodies than
-- members when the bytes are used up.
--
-- Redis must never build a reply above its bytes, however large the bodies are. One body
-- comes in any case: a large one would stop a reader for ever. The script reads a few
-- bodies at a time, as many as may fit by the largest of those before. Where large ones
-- follow many small ones it reads 16 at most, and drops those beyond the limit. (To ask
-- for the length of each first costs half as much as all the rest.) unpack has a limit of
-- some thousand values, hence the chunks of tries.
local left, way = tonumber(ARGV[1]), ARGV[2]

-- Members of one score are in the order of their ids: the place is found by halving.
local function find_place(score, id)
  local first = redis.call('ZCOUNT', KEYS[1], '-inf', '(' .. score)
  local behind = first + redis.call('ZCOUNT', KEYS[1], score, score)
  while first < behind do
    local middle = math.floor((first + behind) / 2)
    if redis.call('ZRANGE', KEYS[1], middle, middle)[1] < id then
      first = middle + 1
    else
      behind = middle
    end
  end
  return first
end

local rows = {}
if way == 'range' then
  rows = redis.call('ZRANGE', KEYS[1], ARGV[3], ARGV[4], 'WITHSCORES')
elseif way == 'from' then
  local first = find_place(ARGV[3], ARGV[4])
  rows = redis.call('ZRANGE', KEYS[1], first, first + ARGV[5] - 1, 'WITHSCORES')
else
  for i = 3, #ARGV do
    local score = redis.call('ZSCORE', KEYS[1], ARGV[i])
    if score then
      rows[#rows + 1] = ARGV[i]
      rows[#rows + 1] = score
    end
  end
end

local ids, bodies, tries = {}, {}, {}
for i = 1, #rows, 2 do ids[(i + 1) / 2] = rows[i] end
local total, count, step = 0, #ids, 1
if left == 0 then total = count end
while total < count and left > 0 do
  local last, largest = math.min(total + step, count), 1
  local chunk = redis.call('HMGET', KEYS[2], unpack(ids, total + 1, last))
  for i = 1, last - total do
    local size = chunk[i] and #chunk[i] or 0
    left = left - size
    if left < 1 and total + i > 1 then
      for j = last - total, i, -1 do chunk[j] = nil end
      last = total + i - 1
      break
    end
    if size > largest then largest = size end
  end
  bodies[#bodies + 1] = chunk
  total = last
  step = math.min(2 * step, 16, math.max(1, math.floor(left / largest)))
end
if redis.call('EXISTS', KEYS[3]) == 1 then
  for from = 1, total, 1000 do
    local last = math.min(from + 999, total)
    tries[#tries + 1] = redis.call('HMGET', KEYS[3], unpack(ids, from, last))
  end
end
return { rows, bodies, tries }
