--- Random lines of a script, see run.lua: each is chosen by what the model has at that moment.
local M = {}

local QUEUES = { 'q1', 'q2', 'q3', 'q4' }
local EXCHANGES = { fan = 'fanout', top = 'topic', dir = 'direct' }

--- Verbs that no line has, and why.
M.left_out = {
  HELLO = 'the first request of each client', HELP = 'says the same always', QUIT = 'as leave',
  OPEN = 'one channel for each client', CLOSE = 'as reconnect',
  EXPLAIN = 'a dry run: tests/integration/figures_spec.lua', LOCK = 'tests/integration/locks_spec.lua',
  UNLOCK = 'with LOCK', CHECK = 'with LOCK', KILL = 'as reconnect', DRAIN = 'for the whole broker',
  TRACE = 'changes nothing: tests/integration/trace_spec.lua',
  SHARED = 'of scripts: tests/integration/shared_verb_spec.lua',
  USER = 'for the whole broker: tests/integration/users_spec.lua',
  SEEK = 'of topics: tests/chaos/support/log_life.lua',
}

local SMALL_WINDOW = 16 -- the smallest there is

local function random_of(random, list)
  return list[random(#list)]
end

local function some(random, share, ...)
  return random() < share and ' ' .. random_of(random, { ... }) or ''
end

local function queue_options(random, i)
  local later = QUEUES[random(math.min(i + 1, #QUEUES), #QUEUES)]
  local options = some(random, 0.15, 'durable=0') .. some(random, 0.25, 'priority=strict')
    .. some(random, 0.4, 'retry=none', 'retry=fixed retry.delay=20m') .. some(random, 0.3, 'delivery-limit=2')
    .. some(random, 0.3, 'dedupe=queued', 'dedupe=90m', 'dedupe=0') .. some(random, 0.15, 'shards=3')
    .. some(random, 0.15, 'ttl=50m', 'ttl=110m') .. ' ack-timeout=1d'
  if random() < 0.3 then
    local by = options:find 'shards' and 'key' or random_of(random, { 'key', 'shard' })
    options = options .. ' order-by=' .. by .. some(random, 0.3, 'inflight=2')
  end
  if i < #QUEUES then
    options = options .. some(random, 0.5, 'dead-letter=-/' .. later, 'dead-letter=-/' .. later, 'dead-letter=fan')
  end
  if random() < 0.3 then -- what goes over to the exchange fan might come back for ever
    options = options .. ' max-length=' .. random(4)
      .. some(random, 0.6, random_of(random, { 'overflow=drop-head', 'overflow=drop-lowest' }),
        options:find 'dead%-letter=%-' and random_of(random, { 'overflow=dead-letter', 'overflow=dead-letter-lowest' }))
  end
  return options
end

local function any_message(random, spec, state)
  local all = {}
  for _, name in ipairs(QUEUES) do
    for _, msg in ipairs(spec.queues[name] and spec.queues[name].msgs or {}) do
      if not state or msg.state == state then all[#all + 1] = msg end
    end
  end
  if #all == 0 then return nil end
  return random_of(random, all)
end

local function id_of(msg)
  return ('{id:%s@%s}'):format(msg.payload, msg.queue.name)
end

local makers = {}

function makers.PUB(random, _, state)
  state.messages = state.messages + 1
  local name = random_of(random, QUEUES)
  local where = random_of(random, { '- ' .. name, '- ' .. name, '- ' .. name, 'fan x', 'top a.b', 'top a.c', 'dir a' })
  return ('PUB %s%s%s%s%s%s <m%d>'):format(where, some(random, 0.3, 'pri=1', 'pri=5', 'pri=200'),
    some(random, 0.2, 'delay=30m', 'delay=90m'), some(random, 0.15, 'ttl=40m', 'ttl=100m'),
    some(random, 0.2, 'id=a', 'id=b', 'id=c'), some(random, 0.1, 'must'), state.messages)
end

function makers.GET(random, spec)
  local msg = random() < 0.2 and any_message(random, spec)
  if msg then return ('GET %s id=%s%s'):format(msg.queue.name, id_of(msg), some(random, 0.3, 'ack=auto')) end
  local first = random_of(random, QUEUES)
  local second = random_of(random, QUEUES)
  return ('GET %s%s%s%s'):format(first, second ~= first and random() < 0.3 and ' ' .. second or '',
    some(random, 0.6, 'max=2', 'max=5', 'max=20'), some(random, 0.2, 'ack=auto'))
end

function makers.SUB(random)
  return ('SUB %s s%d%s%s'):format(random_of(random, QUEUES), random(3),
    some(random, 0.7, 'prefetch=1', 'prefetch=2', 'prefetch=3'), some(random, 0.15, 'ack=auto'))
end

function makers.UNSUB(random) return 'UNSUB s' .. random(3) end

local function settling(random, spec, words)
  local msg = any_message(random, spec, 'unacked')
  if not msg then return nil end
  local line = words:format(('{tag:%s@%s}'):format(msg.payload, msg.queue.name))
  return line, msg.holder.client.number
end

function makers.ACK(random, spec)
  if random() < 0.2 then return random_of(random, { 'ACK 1', 'ACK 2', 'ACK 3', 'ACK 1-3', 'ACK 4-9', 'ACK 999' }) end
  return settling(random, spec, 'ACK %s')
end

function makers.NACK(random, spec)
  return settling(random, spec, 'NACK %s'
    .. some(random, 0.7, 'requeue', 'bury', 'dead', 'delay=30m') .. some(random, 0.2, 'pri=9', 'pri=0'))
end

function makers.TOUCH(random, spec)
  return settling(random, spec, 'TOUCH %s' .. some(random, 0.8, 'for=10ms', 'for=10ms', 'for=5h'))
end

function makers.BEGIN() return 'BEGIN' end
function makers.COMMIT() return 'COMMIT' end
function makers.ROLLBACK() return 'ROLLBACK' end

function makers.PURGE(random) return 'PURGE ' .. random_of(random, QUEUES) end

function makers.KICK(random, spec)
  local msg = random() < 0.4 and any_message(random, spec)
  if msg then return ('KICK %s id=%s'):format(msg.queue.name, id_of(msg)) end
  return 'KICK ' .. random_of(random, QUEUES) .. some(random, 0.5, '1', '2')
end

function makers.REMOVE(random, spec)
  local msg = any_message(random, spec)
  return msg and ('REMOVE %s %s'):format(msg.queue.name, id_of(msg))
end

function makers.RESCHEDULE(random, spec)
  local msg = any_message(random, spec)
  return msg and ('RESCHEDULE %s %s delay=%s'):format(msg.queue.name, id_of(msg), random_of(random, { '0', '30m' }))
end

function makers.FIND(random, spec)
  local msg = any_message(random, spec)
  return msg and ('FIND %s %s'):format(msg.queue.name, id_of(msg))
end

function makers.PEEK(random)
  return 'PEEK ' .. random_of(random, QUEUES) .. some(random, 0.5, '2', '50')
    .. some(random, 0.5, 'state=delayed', 'state=buried', 'state=unacked') .. some(random, 0.3, 'match=m1', 'match=m2')
end

function makers.PAUSE(random)
  return ('PAUSE %s %s'):format(random_of(random, QUEUES), random_of(random, { 'in', 'out', 'both' }))
end

function makers.RESUME(random)
  return 'RESUME ' .. random_of(random, QUEUES) .. some(random, 0.3, 'in', 'out')
end

function makers.REDRIVE(random)
  return 'REDRIVE ' .. random_of(random, QUEUES) .. some(random, 0.4, 'routed')
end

local CHANGES = {
  'retry=', 'retry=none', 'retry=fixed retry.delay=20m', 'retry=fixed retry.delay=10m', 'delivery-limit=',
  'delivery-limit=1', 'delivery-limit=3', 'ttl=', 'ttl=50m', 'ttl=20m', 'priority=', 'priority=strict', 'shards=',
  'shards=2', 'shards=3', 'max-length= overflow=', 'max-length=2 overflow=', 'max-length=3 overflow=drop-head',
  'max-length=3 overflow=drop-lowest',
  'dead-letter=', 'dead-letter=', 'dedupe=', 'dedupe=90m', 'dedupe=10m', 'durable=0', 'order-by=key',
}

--- One change or two, of different options.
local function update(random, spec, i, name)
  local one, other = random_of(random, CHANGES), random_of(random, CHANGES)
  local queue = spec.queues[name]
  if random() < 0.2 and i < #QUEUES then
    local may_be_fan = queue and not queue.overflow:find '^dead' and random() < 0.3
    one = 'dead-letter=' .. (may_be_fan and 'fan' or '-/' .. QUEUES[i + 1])
  end
  local line = ('DECLARE queue %s update %s'):format(name, one)
  return one:match '^[^=]+' ~= other:match '^[^=]+' and random() < 0.5 and line .. ' ' .. other or line
end

function makers.DECLARE(random, spec)
  local which = random(#QUEUES)
  if random() < 0.7 then return update(random, spec, which, QUEUES[which]) end
  for i, name in ipairs(QUEUES) do
    if not spec.queues[name] then return 'DECLARE queue ' .. name .. queue_options(random, i) end
  end
  return 'DECLARE queue ' .. random_of(random, QUEUES) .. ' delivery-limit=7'
end

function makers.DELETE(random)
  return 'DELETE queue ' .. random_of(random, QUEUES) .. some(random, 0.5, 'if-empty')
end

local function binding(random)
  return ('%s %s'):format(random_of(random, QUEUES), random_of(random, { 'fan -', 'top a.*', 'top #.c', 'dir a' }))
end

function makers.BIND(random) return 'BIND ' .. binding(random) end
function makers.UNBIND(random) return 'UNBIND ' .. binding(random) end
function makers.STATS(random) return 'STATS ' .. random_of(random, { 'exchange fan', 'exchange -' }) end
function makers.LIST(random) return 'LIST ' .. random_of(random, { 'queues', 'consumers', 'bindings' }) end
function makers.RULES() return 'RULES reload' end
function makers.PING() return 'PING' end

M.makers = makers

-- How often each is chosen, out of all; what is not here once.
local WEIGHTS = {
  PUB = 40, GET = 16, SUB = 6, UNSUB = 3, ACK = 10, NACK = 24, TOUCH = 8, KICK = 8, REMOVE = 4, RESCHEDULE = 8,
  FIND = 3, PEEK = 3, PAUSE = 3, RESUME = 6, REDRIVE = 5, DECLARE = 10, BIND = 3, BEGIN = 6, COMMIT = 9, PURGE = 2,
  reconnect = 4, leave = 3, restart = 1, kill = 2, ['kill-all'] = 1, ['kill-redis'] = 1, clock = 3,
}

local faults = {
  reconnect = function(random) return 'reconnect ' .. random(3) end,
  leave = function(random) return 'leave ' .. random(3) end,
  restart = function() return 'restart' end,
  kill = function() return 'kill' end,
  ['kill-all'] = function() return 'kill-all' end,
  ['kill-redis'] = function() return 'kill-redis' end,
  clock = function() return 'clock 60m' end,
}

local choices = {}
for _, set in ipairs { makers, faults } do
  local names = {}
  for name in pairs(set) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do
    for _ = 1, WEIGHTS[name] or 1 do choices[#choices + 1] = name end
  end
end

--- The next lines of a script, for run.lua.
---@param seed integer
---@param length integer lines
---@return fun(spec: table): string?
function M.script(seed, length)
  math.randomseed(seed)
  local random = math.random
  local first, state = {}, { messages = 0 }
  for name, kind in pairs(EXCHANGES) do first[#first + 1] = ('c1 DECLARE exchange %s %s'):format(name, kind) end
  table.sort(first)
  for i, name in ipairs(QUEUES) do first[#first + 1] = 'c1 DECLARE queue ' .. name .. queue_options(random, i) end
  for _ = 1, 5 do first[#first + 1] = 'c1 BIND ' .. binding(random) end
  if M.window(seed) == SMALL_WINDOW then
    local queue = random_of(random, QUEUES)
    for _ = 1, SMALL_WINDOW + random(10) do
      state.messages = state.messages + 1
      first[#first + 1] = ('c1 PUB - %s%s%s <m%d>'):format(queue, some(random, 0.3, 'pri=1', 'pri=5'),
        some(random, 0.1, 'delay=30m'), state.messages)
    end
  end
  local n = 0
  return function(spec)
    n = n + 1
    if n <= #first then return first[n] end
    if n > #first + length then return nil end
    while true do
      local name = random_of(random, choices)
      if faults[name] then return faults[name](random) end
      local line, client = makers[name](random, spec, state)
      client = client or random(3)
      -- An id given twice in one transaction, or whose message has no id yet, has no certain answer.
      if line and spec.clients[client].transaction then line = line:gsub(' id=%a ', ' ') end
      if line then return ('c%d %s'):format(client, line) end
    end
  end
end

---@param seed integer
---@return integer messages of a shard that the broker has in memory
function M.window(seed)
  return seed % 2 == 0 and 16384 or SMALL_WINDOW
end

return M
