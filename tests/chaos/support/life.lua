--- One life of a broker for the crash matrix: a script of all verbs that touch Redis, an
--- orderly end, a start, and a check of everything that was promised, down to the keys
--- that are left in Redis. Each part keeps the ledger, and may be cut short anywhere.
local Ledger = require 'chaos.support.ledger'
local wait = require 'support.wait'

---@class Life
---@field broker Broker
---@field redis Redis
---@field ledger Ledger
local Life = {}
Life.__index = Life

-- What the script declares, as `verify` expects to find it.
local QUEUES = {
  jobs = 'dead-letter=-/dead ack-timeout=1h',
  ranked = 'priority=strict shards=2 ack-timeout=1h',
  dead = '',
  side = 'retry=none',
  lease = 'ack-timeout=20ms',
  heap = '',
  ticks = '',
}
local ORDER = { 'jobs', 'ranked', 'dead', 'side', 'lease', 'heap', 'ticks' }

--- Of the points of its matrix the suite takes one in so many.
Life.share = 10

--- More rules for the broker.
Life.rules = {
  ['filter/count.lua'] = [[
return {
  doc = "counts, so that there is something to keep",
  match = { exchange = "ev" },
  publish = function(msg)
    tide.shared.set("last", msg.key)
    tide.counter("crossed"):incr()
  end,
}
]],
  ['schedule/tick.lua'] = [[
return {
  doc = "publishes its time",
  every = "100ms",
  missed = "once",
  run = function(broker, tick)
    broker.publish { key = "ticks", payload = tostring(tick.ms) }
  end,
}
]],
}

---@param broker Broker
---@param redis Redis
---@return Life
function Life.new(broker, redis)
  return setmetatable({
    broker = broker, redis = redis, ledger = Ledger.new(), publish_ids = {}, declared = {}, after_kill = false,
  }, Life)
end

-- ---- one client ----------------------------------------------------------

function Life:next_line()
  local line, why = self.client:read_line(30)
  if line then return line end
  if why == 'closed' then error('the connection was closed', 0) end
  Ledger.broken('no answer in 30 s; the broker said:\n%s', self.broker:log())
end

--- The next reply; messages before it are noted.
function Life:reply()
  while true do
    local line = self:next_line()
    if line:find '^MSG' then
      self:receive(self.client:delivery(line))
    elseif not line:find '^EVT' then
      return line
    end
  end
end

function Life:send(line, payload)
  self.client:send(payload and ('%s %d\r\n%s\r\n'):format(line, #payload, payload) or line .. '\r\n')
end

--- A request that must be answered OK; gives the words behind it.
function Life:ok(line, payload)
  self:send(line, payload)
  local answer = self:reply()
  if not answer:find '^OK' then Ledger.broken('%q was answered %q', line, answer) end
  return answer:sub(4)
end

function Life:json(line)
  self:send(line)
  local answer = self:reply()
  local len = answer:match '^DATA (%d+)$'
  if not len then Ledger.broken('%q was answered %q', line, answer) end
  return (require('dkjson').decode(self.client:expect_payload(len)))
end

--- A message that is held now; tag and copy stay in `held`.
function Life:receive(msg)
  local queue = self.queue_of[msg.sid] or self.getting
  if queue == 'ticks' then
    self.held[#self.held + 1] = { tag = msg.tag, queue = queue, tick = msg.payload }
    return
  end
  local copy = self.ledger:seen(queue, msg.payload, {
    id = msg.options.id, pri = msg.options.pri or '0', exchange = msg.exchange, key = msg.key,
    headers = msg.headers,
  })
  local is_back = copy.was_handed_out and self.after_kill and queue == copy.queue
  if is_back and not msg.redelivered then
    Ledger.broken('%q of %s was handed out before the kill and is not marked redelivered', msg.payload, queue)
  end
  copy.was_handed_out = true
  if msg.tag == '-' then
    -- ack=auto: it counts as acknowledged, but no OK says so.
    self.ledger:removing(copy)
  else
    self.held[#self.held + 1] = { tag = msg.tag, queue = queue, copy = copy }
  end
end

function Life:get(queue, words)
  self.getting = queue
  -- Messages of ack=auto may be lost with the connection from now on.
  if words:find 'ack=auto' then
    for _, copy in ipairs(self.ledger:copies_in(queue)) do self.ledger:removing(copy) end
  end
  local n = tonumber((self:ok(('GET %s %s'):format(queue, words))))
  for _ = 1, n do
    local line = self.client:read_line(30)
    if not line then error('the connection was closed', 0) end
    self:receive(self.client:delivery(line))
  end
  return n
end

--- Acknowledge the first `n` of what is held, in one request.
function Life:ack(n)
  local taken, tags = {}, {}
  for i = 1, math.min(n, #self.held) do
    taken[i] = table.remove(self.held, 1)
    tags[i] = taken[i].tag
    if taken[i].copy then self.ledger:removing(taken[i].copy) end
  end
  if #taken == 0 then return end
  local line = 'ACK ' .. table.concat(tags, ' ')
  self:send(line)
  local answer = self:reply()
  if answer:find '^ERR lease%-lost' and taken[1].queue == 'lease' then
    -- A slow machine needs longer than the lease of this queue: it comes again.
    for _, one in ipairs(taken) do self.ledger:kept(one.copy) end
    return
  end
  if not answer:find '^OK' then Ledger.broken('%q was answered %q', line, answer) end
  for _, one in ipairs(taken) do
    if one.copy then self.ledger:removed(one.copy, one.queue) end
  end
end

--- A message by the default exchange, or by `exchange`.
---@param text string
---@param o? table exchange, key, queues (default: the key's), id, delay, ttl, pri, headers
function Life:prepare(text, o)
  o = o or {}
  local queues = o.queues or { o.key or 'jobs' }
  local fields = { exchange = o.exchange or '-', key = o.key or 'jobs', pri = o.pri, headers = o.headers }
  local words = {}
  for _, name in ipairs { 'id', 'delay', 'ttl', 'pri' } do
    if o[name] then words[#words + 1] = (' %s=%s'):format(name, o[name]) end
  end
  for name, value in pairs(o.headers or {}) do words[#words + 1] = (' h:%s=%s'):format(name, value) end
  local line = ('PUB %s %s%s'):format(fields.exchange, fields.key, table.concat(words))
  if o.id then self.publish_ids[text] = { line = line, queues = queues } end
  self.ledger:sent(text, queues, fields)
  return line, queues
end

function Life:publish(text, o)
  local line, queues = self:prepare(text, o)
  local id, n = self:ok(line, text):match '^(%x+) (%d+)$'
  if tonumber(n) ~= #queues then Ledger.broken('%q went to %s queues, not %d', line, tostring(n), #queues) end
  self.ledger:confirmed(text, queues, id)
end

--- Several at once, in one segment: a batch of Redis has more than one.
function Life:publish_many(texts, o)
  for _, text in ipairs(texts) do self:send(self:prepare(text, o), text) end
  for _, text in ipairs(texts) do
    local answer = self:reply()
    local id = answer:match '^OK (%x+) 1$'
    if not id then Ledger.broken('a publish was answered %q', answer) end
    self.ledger:confirmed(text, { o and o.key or 'jobs' }, id)
  end
end

-- ---- parts ---------------------------------------------------------------

function Life:connect()
  self.client = self.broker:connect()
  self.held, self.queue_of, self.getting = {}, {}, nil
end

function Life:start()
  self.broker:launch()
  local ready = self.broker:wait_ready()
  if ready ~= true then error(('the broker did not start: %s'):format(tostring(ready)), 0) end
  self:connect()
end

function Life:declare()
  for _, name in ipairs(ORDER) do
    self.declared[name] = self.declared[name] or 'asked'
    self:ok((('DECLARE queue %s %s'):format(name, QUEUES[name]):gsub(' $', '')))
    self.declared[name] = 'there'
  end
  self:ok 'DECLARE exchange ev topic'
  self:ok 'BIND jobs ev a.#'
  self:ok 'BIND ranked ev a.#'
end

function Life:remove_all(queue, request, is_deleted)
  for _, copy in ipairs(self.ledger:copies_in(queue)) do self.ledger:removing(copy) end
  self:ok(request)
  for _, copy in ipairs(self.ledger:copies_in(queue)) do self.ledger:removed(copy, queue) end
  if is_deleted then self.declared[queue] = nil end
end

function Life:work()
  self:declare()
  self:ok 'DECLARE exchange gone fanout'
  self.declared.old = 'asked'
  self:ok 'DECLARE queue old'
  self:ok 'BIND old gone -'
  self:ok 'UNBIND old gone -'
  self:ok 'BIND old gone -'

  self:publish 'one'
  self:publish('two', { headers = { tier = 'gold' }, pri = '7' })
  self:publish('three', { exchange = 'ev', key = 'a.b', queues = { 'jobs', 'ranked' }, pri = '3' })
  self:publish('four', { id = 'first' })
  self:publish('five', { delay = '1h' })
  self:publish('six', { ttl = '1h' })
  self:publish('seven', { delay = '30ms', id = 'delayed' })
  self:publish_many { 'm1', 'm2', 'm3', 'm4', 'm5', 'm6' }
  self:publish_many({ 's1', 's2', 's3' }, { key = 'side' })
  self:publish_many({ 'h1', 'h2', 'h3' }, { key = 'heap' })
  self:publish('h4', { key = 'heap', delay = '1h', id = 'heaped' })
  self:publish_many({ 'o1', 'o2', 'o3' }, { key = 'old' })

  -- Held, in the ledger of unacked messages, settled in each way.
  self:get('jobs', 'max=6')
  local held = self.held
  self:ok(('TOUCH %s for=900ms'):format(held[1].tag))
  self:ok(('TOUCH %s for=2h'):format(held[1].tag))
  self:ack(1)
  self:ok(('NACK %s delay=1h'):format(table.remove(held, 1).tag))
  self.ledger:moving(held[1].copy, 'dead')
  self:ok(('NACK %s dead'):format(table.remove(held, 1).tag))
  self:ok(('NACK %s requeue'):format(table.remove(held, 1).tag))
  self:ok(('TOUCH %s for=900ms'):format(held[1].tag))
  self:publish('four', { id = 'again', key = 'heap' })
  self:ack(2)

  -- Buried, kicked.
  self:get('side', 'max=3')
  for _ = 1, 3 do self:ok('NACK ' .. table.remove(held, 1).tag) end
  self:ok 'KICK side 1'
  self:json 'PEEK side 3 state=buried'
  self:ok 'KICK side'
  self:get('side', 'max=1 ack=auto')

  -- A lease that ends.
  self:publish('l1', { key = 'lease' })
  self:get('lease', 'max=1')
  self.held = {}
  self:get('lease', 'max=1 wait=10s')
  for _, copy in ipairs(self.ledger:copies_in 'lease') do self.ledger:removing(copy) end
  self:send('ACK ' .. held[#held].tag)
  self:reply()
  self.held = {}

  self.queue_of.s = 'jobs'
  self:ok 'SUB jobs s prefetch=2'
  self:ok 'PING'
  self:ack(2)
  self:ok 'UNSUB s'
  self:ack(#self.held)

  self:remove_all('heap', 'PURGE heap')
  self:publish('h5', { key = 'heap' })
  self:remove_all('old', 'DELETE queue old', true)
  self:ok 'DELETE exchange gone'
  self.declared.old = 'asked'
  self:ok 'DECLARE queue old'
  self:publish('o4', { key = 'old' })
  self:json 'RULES reload'
  self:publish_many { 'm7', 'm8' }

  -- A consumer that goes away with what it holds.
  self:get('jobs', 'max=2')
  self.client:close()
  self:connect()
  self:publish('last', { id = 'last' })
end

function Life:stop()
  self.client:close()
  self.broker:signal 'TERM'
  local status = wait.poll(function() return self.broker:exit_status() end, 30)
  if not status then Ledger.broken('the broker did not stop:\n%s', self.broker:log()) end
  if status ~= 0 then error('the broker ended with status ' .. status, 0) end
end

-- ---- checking ------------------------------------------------------------

function Life:verify_publish_ids()
  for text, publish in pairs(self.publish_ids) do
    local queue = publish.queues[1]
    local copy = self.ledger:copy(text, queue)
    local id, duplicate = self:ok(publish.line, text):match '^(%x+) 1(.*)$'
    if not id then Ledger.broken('%q was answered otherwise', publish.line) end
    if copy.id and (id ~= copy.id or duplicate ~= ' duplicate') then
      Ledger.broken('the publish id of %q, confirmed as %s, is taken again as %s%s', text, copy.id, id, duplicate)
    end
    if not copy.id then self.ledger:confirmed(text, { queue }, id, duplicate ~= '') end
  end
end

--- Take everything that a queue has, each message once.
function Life:drain_queue(queue)
  local deadline = wait.deadline(30)
  local is_purged = false
  while true do
    self:ok('KICK ' .. queue)
    if self:get(queue, 'max=100') > 0 then
      local here = {}
      for _, one in ipairs(self.held) do
        local name = one.copy and one.copy.queue .. ' ' .. one.copy.text or one.tick
        if here[name] then Ledger.broken('%s is twice in %s', name, queue) end
        here[name] = true
      end
      self:ack(#self.held)
    end
    local stats = self:json('STATS ' .. queue)
    local far = {}
    for _, one in ipairs(self:json(('PEEK %s 100 state=delayed'):format(queue)).messages) do
      if one.due > os.time() * 1000 + 60000 then far[#far + 1] = one end
    end
    if stats.ready + stats.unacked + stats.buried == 0 and stats.delayed == #far then
      if #far == 0 then return end
      if is_purged then Ledger.broken('PURGE leaves %d in %s', #far, queue) end
      for _, one in ipairs(far) do
        self.ledger:seen(queue, one.payload, {
          id = one.id, pri = tostring(one.priority), exchange = one.exchange, key = one.key, headers = one.headers,
        })
      end
      self:remove_all(queue, 'PURGE ' .. queue)
      is_purged = true
    elseif wait.left(deadline) == 0 then
      Ledger.broken('%s is not empty in 30 s: %s', queue, require('dkjson').encode(stats))
    end
  end
end

--- The keys that docs/redis.md names, as patterns of Lua.
local function documented_keys()
  local patterns = {}
  for line in io.lines 'docs/redis.md' do
    local key = line:match '^| `({?tide}?:[^`]+)` |'
    if key then
      local pattern = key:gsub('%p', '%%%0'):gsub('%%<s%%>', '%%d+'):gsub('%%<%l+%%>', '.+')
      patterns[#patterns + 1] = '^' .. pattern .. '$'
    end
  end
  assert(#patterns > 10, 'docs/redis.md names no keys')
  return patterns
end
local DOCUMENTED = documented_keys()

local function is_documented(key)
  for _, pattern in ipairs(DOCUMENTED) do
    if key:find(pattern) then return true end
  end
  return false
end

--- Wait until no key is wrong, as `is_wrong` says.
function Life:expect_keys(is_wrong, when)
  local found
  local ok = wait.poll(function()
    found = {}
    for key in (self.redis:cli('--scan') .. '\n'):gmatch '([^\n]+)\n' do
      if is_wrong(key) or not is_documented(key) then found[#found + 1] = key end
    end
    return #found == 0
  end, 5)
  if not ok then Ledger.broken('%s these keys are left: %s', when, table.concat(found, ', ')) end
end

function Life:verify()
  self:declare()
  self:verify_publish_ids()
  local queues = { table.unpack(ORDER) }
  if self.declared.old then
    self:ok 'DECLARE queue old'
    queues[#queues + 1] = 'old'
  end
  for _, queue in ipairs(queues) do
    -- Dead letters come from jobs, which stands before.
    self:drain_queue(queue)
  end
  self.ledger:expect_nothing_lost()
  self:expect_keys(function(key)
    return key:find '^tide:{' and not key:find ':dedupe$' and not key:find '^tide:{//ticks#'
  end, 'when all queues are drained')
  self.publish_ids = {} -- they go with their queues
  for _, queue in ipairs(queues) do self:ok('DELETE queue ' .. queue) end
  self:ok 'DELETE exchange ev'
  self:send 'DELETE exchange gone'
  self:reply()
  self:expect_keys(function(key)
    return key:find '^tide:{' or key:find '^{tide}:/:'
  end, 'when everything is deleted')
end

return Life
