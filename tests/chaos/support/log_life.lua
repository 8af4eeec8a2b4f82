--- One life of a broker with topics for the crash matrix, as life.lua is one with queues: a
--- script of all that topics write to Redis, an orderly end, a start, and a check of
--- everything that was promised. Each part keeps the ledger, and may be cut short anywhere.
local Life = require 'chaos.support.life'
local LogLedger = require 'chaos.support.log_ledger'
local wait = require 'support.wait'

local broken = LogLedger.broken

---@class LogLife: Life
---@field broker Broker
---@field redis Redis
---@field ledger LogLedger
local LogLife = setmetatable({ rules = {}, share = 30 }, { __index = Life })
LogLife.__index = LogLife

local PARTITIONS = 2
local GROUPS = { 'g1', 'g2', 'g3' }
local DECLARE = 'DECLARE topic log partitions=2 delivery-limit=0 retry=immediate ack-timeout=1h'

---@param broker Broker
---@param redis Redis
---@return LogLife
function LogLife.new(broker, redis)
  return setmetatable({
    broker = broker, redis = redis, ledger = LogLedger.new(PARTITIONS, GROUPS), next = 0, ids = {},
  }, LogLife)
end

-- ---- one client ----------------------------------------------------------

--- A delivery to a reader (sid `r`) or to a group, whose name is the sid.
function LogLife:receive(msg)
  local p, offset = tonumber(msg.options.partition), tonumber(msg.options.offset)
  local name = msg.sid
  if name == 'old' then return end
  if name == 'r' then
    self.ledger:seen(p, offset, msg.payload)
    if offset ~= self.read_to[p] then broken('a reader is given %d:%d, not %d', p, offset, self.read_to[p]) end
    self.read_to[p] = offset + 1
    return
  end
  self.ledger:delivered(name, p, offset, msg.payload, self.holds[name][p], msg.attempt)
  local one = { tag = tonumber(msg.tag), group = name, partition = p, offset = offset, is_refused = false }
  self.holds[name][p][offset] = one
  self.held[#self.held + 1] = one
end

--- Wait for deliveries until so many are held.
function LogLife:hold(count)
  while #self.held < count do
    local line = self:next_line()
    if line:find '^MSG' then self:receive(self.client:delivery(line)) end
  end
end

--- Publish so many in one segment; every third is large, so that they are several batches.
function LogLife:publish(count)
  local texts, lines = {}, {}
  for i = 1, count do
    self.next = self.next + 1
    local text = self.next .. (' '):rep(self.next % 3 == 0 and 60000 or 0)
    texts[i] = text
    self.ledger:sending(text)
    lines[i] = ('PUB events k%d %d\r\n%s\r\n'):format(self.next % 7, #text, text)
  end
  self.client:send(table.concat(lines))
  for _, text in ipairs(texts) do
    local answer = self:reply()
    local p, offset = answer:match '^OK %x+ 1 (%d+):(%d+)$'
    if not p then broken('a publish was answered %q', answer) end
    self.ledger:confirm(text, tonumber(p), tonumber(offset))
  end
end

--- A message that may have been published before: it has the place that it had.
function LogLife:publish_with_id(text)
  self.ledger:sending(text)
  self.ids[text] = true
  local p, offset = self:ok(('PUB events k%s id=%s'):format(text, text), text):match ' (%d+):(%d+)$'
  if not p then broken('the publish of %q has no place', text) end
  self.ledger:confirm(text, tonumber(p), tonumber(offset))
end

--- Acknowledge, or refuse, what is held at these places of `held`, in one request.
function LogLife:settle(kind, places)
  local words, taken = { kind }, {}
  for i, place in ipairs(places) do
    taken[i] = self.held[place]
    words[i + 1] = taken[i].tag
  end
  for _, one in ipairs(taken) do
    one.is_refused = kind == 'NACK'
    if kind == 'ACK' then self.ledger:asking(one.group, one.partition, one.offset) end
    for i, other in ipairs(self.held) do
      if other == one then table.remove(self.held, i) end
    end
  end
  self:ok(table.concat(words, ' '))
  for _, one in ipairs(taken) do
    if kind == 'ACK' then
      self.holds[one.group][one.partition][one.offset] = nil
      self.ledger:settled(one.group, one.partition, one.offset)
    end
  end
end

function LogLife:ack_all()
  if #self.held == 0 then return end
  local places = {}
  for i = 1, #self.held do places[i] = i end
  self:settle('ACK', places)
end

local function keys_of(p) return ('tide:{//log#%d}:groups'):format(p) end

--- Until Redis has what a group has settled without a hole.
function LogLife:expect_committed(name)
  local g = self.ledger.groups[name]
  for p = 0, PARTITIONS - 1 do
    local wanted, has = 0, nil
    while g.settled[p][wanted] do wanted = wanted + 1 end
    local is_there = wait.poll(function()
      if not self.broker:is_running() then error('the broker is gone', 0) end
      has = tonumber(self.redis:cli('HGET', keys_of(p), name))
      return (has or 0) >= wanted
    end)
    if not is_there then broken('%s has settled %d of partition %d; Redis has %s', name, wanted, p, tostring(has)) end
    self.ledger:committed(name, p, has or 0)
  end
end

-- ---- parts ---------------------------------------------------------------

function LogLife:connect()
  self.client = self.broker:connect()
  self.held, self.holds, self.read_to = {}, {}, {}
  for _, name in ipairs(GROUPS) do
    self.holds[name] = {}
    for p = 0, PARTITIONS - 1 do self.holds[name][p] = {} end
  end
end

function LogLife:start()
  Life.start(self)
  self.ledger:restarted(self.is_clean)
  self.is_clean = false
end

function LogLife:declare()
  self:ok(DECLARE)
  self:ok 'DECLARE exchange events fanout'
  self:ok 'BIND log events -'
end

function LogLife:work()
  self:declare()
  self:ok 'DECLARE topic old partitions=1'
  self:ok('PUB - old', 'o')
  self:ok 'SUB old old group=g'
  self:publish(1)
  self:publish(12)

  -- Acks in any order; what is held at the end is nobody's.
  self:ok 'SUB log g1 group=g1 prefetch=8'
  self:hold(8)
  self:settle('ACK', { 2, 1, 4 })
  self:settle('NACK', { 2, 1 })
  self:hold(8)
  self:publish(4)
  self:settle('ACK', { 1, 2, 3, 4, 5, 6 })
  self:expect_committed 'g1'
  self:ok 'UNSUB g1'
  self:ack_all()

  -- Another group goes through everything and back.
  self:ok 'SUB log g2 group=g2'
  self:hold(17)
  self:ack_all()
  self:expect_committed 'g2'
  self:ok 'UNSUB g2'
  self.ledger:seeking('g2', 0)
  self:ok 'SEEK log g2 first'
  self:ok 'SUB log g2 group=g2 prefetch=2'
  self:hold(2)
  self:ack_all()

  -- With ids of their own, which are known at once and after whatever comes.
  for i = 1, 3 do self:publish_with_id('u' .. i) end
  self:publish_with_id 'u1'

  -- Two at once, or none.
  self:ok 'BEGIN'
  for i = 1, 2 do
    self.ledger:sending('t' .. i)
    self:ok(('PUB events a%d'):format(i), 't' .. i)
  end
  self:ok 'COMMIT'
  self.is_committed = true

  -- Deleted: a topic, and a group with what it has committed.
  self:ok 'DELETE topic old'
  self:ok 'SUB log gone group=gone from=last'
  self:ok 'UNSUB gone'
  self:ok 'DELETE group log gone'
  self:publish(6)
  self:hold(2)
  self:settle('ACK', { 1 })
end

function LogLife:stop()
  Life.stop(self)
  self.is_clean = true
end

-- ---- checking ------------------------------------------------------------

--- The ends of the partitions, by STATS.
function LogLife:ends()
  local ends = {}
  for p = 0, PARTITIONS - 1 do ends[p] = 0 end
  for _, p in ipairs(self:json('STATS log').per_partition) do ends[p.partition] = p['end'] end
  return ends
end

--- A reader sees everything, without a gap.
function LogLife:verify_log()
  local ends = self:ends()
  for p = 0, PARTITIONS - 1 do self.read_to[p] = 0 end
  self:ok 'SUB log r from=first ack=auto'
  for p = 0, PARTITIONS - 1 do
    while self.read_to[p] < ends[p] do
      local line = self:next_line()
      if line:find '^MSG' then self:receive(self.client:delivery(line)) end
    end
  end
  self:ok 'UNSUB r'
  self.ledger:expect_all({ [0] = 0, 0 }, ends)
  return ends
end

--- A group goes on to the end.
function LogLife:verify_group(name)
  self:ok(('SUB log %s group=%s'):format(name, name))
  local deadline = wait.deadline(30)
  while true do
    self:ack_all()
    local lag = 0
    for _, g in ipairs(self:json 'LIST groups') do lag = lag + (g.group == name and g.lag or 0) end
    if lag == 0 and #self.held == 0 then break end
    if wait.left(deadline) == 0 then broken('%s is %d behind for 30 s', name, lag) end
  end
  self:ok('UNSUB ' .. name)
end

function LogLife:verify_all()
  for text in pairs(self.ids) do self:publish_with_id(text) end
  self:publish(3) -- they come behind what is there
  local ends = self:verify_log()
  for _, name in ipairs(GROUPS) do self:verify_group(name) end
  self.ledger:expect_delivered({ [0] = 0, 0 }, ends)
  local t1, t2 = self.ledger.place.t1, self.ledger.place.t2
  if (t1 ~= nil) ~= (t2 ~= nil) or (self.is_committed and not t1) then
    broken('of a transaction %s and %s are there', tostring(t1), tostring(t2))
  end
end

function LogLife:verify()
  self:declare()
  if not self.is_over then self:verify_all() end
  self.is_over = true -- its deletion may be carried out
  self:ok 'DELETE topic log'
  self:ok 'DELETE exchange events'
  self:send 'DELETE topic old'
  self:reply()
  self:expect_keys(function(key)
    return key:find '^tide:{' or key:find '^{tide}:/:'
  end, 'when everything is deleted')
end

return LogLife
