-- Rename the keys of layout 1 that are not of a shard or partition: "tide:<rest>" becomes
-- "{tide}:<rest>". Strings at two of the old names lock older brokers out, which look for
-- hashes there: they do not start.
--
-- KEYS: the holder, that of layout 2, the document of the layout, the ids. ARGV: the
-- incarnation, what the locks say. Gives how many keys have other names; -1: another broker
-- is the holder. (The other keys are found by their names. All this is one Redis.)
--
-- All is looked at before the first write, so a refusal leaves all as it was. A rename
-- passes while memory is out, and what is written behind it does too.
local TABLES = { exchanges = true, queues = true, bindings = true, pauses = true, locks = true, topics = true,
                 ['topic-options'] = true }
local OTHERS = { vhosts = true, users = true, holder = true, ids = true, ['rules:shared'] = true,
                 ['rules:schedule'] = true, ['rules:last'] = true, ['rules:log'] = true }

-- A key of a shard has a '/' in front of the first ':'; a vhost has none, or is "/".
local function is_to_move(rest)
  if OTHERS[rest] or string.sub(rest, 1, 10) == 'rules:gen:' then return true end
  local vhost, suffix = string.match(rest, '^([^:]+):(.+)$')
  if not vhost or (vhost ~= '/' and string.find(vhost, '/', 1, true)) then return false end
  return TABLES[suffix] or (string.sub(suffix, 1, 6) == 'topic:' and #suffix > 6) or false
end

local function is_lock(key)
  return redis.call('TYPE', key).ok == 'string' and redis.call('GET', key) == ARGV[2]
end

local holder = redis.call('EXISTS', KEYS[2]) == 1 and KEYS[2] or KEYS[1]
if redis.call('HGET', holder, 'incarnation') ~= ARGV[1] then return -1 end
local names, cursor = {}, '0'
repeat
  local scan = redis.call('SCAN', cursor, 'MATCH', 'tide:*', 'COUNT', 1000)
  cursor = scan[1]
  for _, key in ipairs(scan[2]) do
    local rest = string.sub(key, 6)
    if is_to_move(rest) and not (key == KEYS[4] and is_lock(key)) then names[key] = '{tide}:' .. rest end
  end
until cursor == '0'
for from, to in pairs(names) do
  if redis.call('EXISTS', to) == 1 then
    return redis.error_reply('ERR there are both ' .. from .. ' and ' .. to .. ': one of them has to go')
  end
end
local count = 0
for from, to in pairs(names) do
  redis.call('RENAME', from, to)
  count = count + 1
end
redis.call('HDEL', KEYS[3], '')
redis.call('HSET', KEYS[3], 'layout', 2)
redis.call('SET', KEYS[1], ARGV[2])
redis.call('SET', KEYS[4], ARGV[2])
return count
