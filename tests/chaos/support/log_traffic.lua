--- A publisher, two groups whose members come and go, and a reader of a topic, that work
--- without waiting for answers: whatever happens to the broker finds requests and answers
--- on their way. They keep a ledger (log_ledger.lua), and may be cut short anywhere.
---
---   local traffic = LogTraffic.new()
---   traffic:declare(broker:connect())
---   traffic:connect(broker)
---   traffic:work(20)
---   broker:kill9()
---   traffic:close()
---   ...
---   traffic:finish(broker)
local LogLedger = require 'chaos.support.log_ledger'
local wait = require 'support.wait'

local broken = LogLedger.broken
local TOPIC, PARTITIONS = 'log', 3
local GROUPS = { 'g1', 'g2' }
local MEMBERS_MAX = 4

---@class LogHeld
---@field tag string
---@field partition integer
---@field offset integer
---@field is_refused boolean by a NACK that may not have been carried out

---@class LogMember
---@field client Client
---@field group string
---@field asked table[] what was sent and is not answered
---@field said string[] all lines, both ways
---@field held LogHeld[] in the order in which they came
---@field holds table<integer, table<integer, LogHeld>> the same by partition and offset, and what it has refused
---@field owns table<integer, true> its partitions
---@field returned table<integer, table<integer, true>> what it has refused comes before anything else

---@class LogTraffic
---@field ledger LogLedger
---@field figures table<string, integer>
local LogTraffic = {}
LogTraffic.__index = LogTraffic

---@param figures table<string, integer>?
---@param retention string? an option of the topic; default: it drops nothing
---@return LogTraffic
function LogTraffic.new(figures, retention)
  local self = setmetatable({
    ledger = LogLedger.new(PARTITIONS, GROUPS), figures = figures or {}, next = 0, members = {}, is_open = false,
    unsure = {},
    -- Where the reader is. It goes on there in each life of the broker.
    reading = {},
  }, LogTraffic)
  self.declarations = {
    ('DECLARE topic %s partitions=%d retention=0 delivery-limit=0 ack-timeout=1h retry=immediate %s'):format(
      TOPIC, PARTITIONS, retention or ''):gsub(' $', ''),
    'DECLARE exchange events fanout',
    ('BIND %s events -'):format(TOPIC),
  }
  self.ledger.keeps_all = not retention
  return self
end

function LogTraffic:count(what, n) self.figures[what] = (self.figures[what] or 0) + (n or 1) end

---@param c Client
function LogTraffic:declare(c)
  for _, line in ipairs(self.declarations) do c:ok(line) end
end

-- ---- publishing ----------------------------------------------------------

--- Send what there is room for. A broker that holds publishers back reads nothing.
local function send_outbox(self)
  local last, _, partial = self.publisher.sock:send(self.outbox)
  self.outbox = self.outbox:sub((last or partial or 0) + 1)
end

local function request_of(self, one)
  self.publishing[#self.publishing + 1] = one
  self.ledger:sending(one.text)
  self:count 'log published'
  return ('PUB events %s%s %d\r\n%s\r\n'):format(one.key, one.words, #one.text, one.text)
end

local function new_message(self)
  self.next = self.next + 1
  local one = { text = tostring(self.next), key = 'k' .. math.random(20) }
  one.has_id = math.random(3) == 1
  one.words = one.has_id and ' id=p' .. self.next or ''
  -- Large ones fill record batches, so that an append has several.
  if self.next % 5 == 0 then one.text = one.text .. (' '):rep(self.next % 35 == 0 and 70000 or 2000) end
  return one
end

--- Some messages. What was sent with an id of its own and was not confirmed is sent again.
function LogTraffic:publish(count)
  if self.outbox ~= '' then return send_outbox(self) end
  local lines = {}
  for _, one in ipairs(self.unsure) do lines[#lines + 1] = request_of(self, one) end
  self.unsure = {}
  for _ = 1, count do lines[#lines + 1] = request_of(self, new_message(self)) end
  self.outbox = table.concat(lines)
  send_outbox(self)
end

--- The connection may have ended.
local function send(client, text)
  local ok, err = pcall(client.send, client, text)
  if not ok and type(err) == 'table' then error(err, 0) end
end

function LogTraffic:read_confirms()
  while true do
    local line = self.publisher:read_line(0)
    if not line then return end
    if not line:find '^EVT' then
      local one = table.remove(self.publishing, 1)
      local is_duplicate, partition, offset = line:match '^OK %x+ 1( ?%l*) (%d+):(%d+)$'
      if partition and (is_duplicate == '' or one.has_id) then
        self.ledger:confirm(one.text, tonumber(partition), tonumber(offset))
        self:count 'log confirmed'
      elseif line:find '^ERR store' or line:find '^ERR shutdown' or line:find '^ERR busy' then
        self.ledger:refuse(one.text)
        self:count 'log refused'
        if one.has_id then self.unsure[#self.unsure + 1] = one end
      else
        broken('a publish to a topic was answered %q', line)
      end
    end
  end
end

-- ---- members of groups ---------------------------------------------------

function LogTraffic:join(name)
  local m = {
    client = self.broker:connect(), group = name, asked = {}, said = {},
    held = {}, holds = {}, returned = {}, owns = {},
  }
  for p = 0, PARTITIONS - 1 do m.holds[p], m.returned[p] = {}, {} end
  m.asked[1] = { kind = 'SUB' }
  m.is_joined = true
  m.client.sock:send(('SUB %s s group=%s prefetch=%d\r\n'):format(TOPIC, name, math.random(5, 200)))
  self.members[#self.members + 1] = m
end

--- Nothing that it has refused lies before that.
local function is_in_order(m, partition, offset)
  for other in pairs(m.returned[partition]) do
    if other < offset then return false end
  end
  return true
end

function LogTraffic:receive(m, line)
  local msg = m.client:delivery(line)
  local partition, offset = tonumber(msg.options.partition), tonumber(msg.options.offset)
  if not is_in_order(m, partition, offset) then
    broken('%d:%d comes to %s before what was refused with an OK:\n%s', partition, offset, m.group,
      table.concat(m.said, '\n', math.max(1, #m.said - 200)))
  end
  m.returned[partition][offset] = nil
  self.ledger:delivered(m.group, partition, offset, msg.payload, m.holds[partition], msg.attempt)
  local one = { tag = msg.tag, partition = partition, offset = offset, is_refused = false }
  m.holds[partition][offset] = one
  m.held[#m.held + 1] = one
  self:count 'log delivered'
end

local function answered(self, m, line)
  local what = table.remove(m.asked, 1)
  if not what then broken('%q answers nothing', line) end
  local is_ok = line:find '^OK' ~= nil
  if what.kind == 'UNSUB' then
    for p = 0, PARTITIONS - 1 do m.owns[p], m.returned[p] = false, {} end
  end
  for _, one in ipairs(what) do
    if what.kind == 'ACK' and is_ok then
      self.ledger:settled(m.group, one.partition, one.offset)
      self:count 'log settled'
    -- Of many tags the first may have come again before the answer.
    elseif what.kind == 'NACK' and is_ok and m.owns[one.partition]
        and m.holds[one.partition][one.offset] == one then
      m.returned[one.partition][one.offset] = true
    end
  end
  local is_expected = is_ok or line:find '^ERR shutdown' or line:find '^ERR store' or line:find '^ERR busy'
  if not is_expected then broken('%s of %s was answered %q', what.kind, m.group, line) end
end

local function read_member(self, m)
  while true do
    local line = m.client:read_line(0)
    if not line then return end
    m.said[#m.said + 1] = line
    if line:find '^MSG' then
      self:receive(m, line)
    elseif line:find '^EVT assigned' then
      -- What it has refused may be another one's from now on.
      for p = 0, PARTITIONS - 1 do
        m.owns[p] = line:match ' (%S+)$':find(tostring(p), 1, true) ~= nil
        if not m.owns[p] then m.returned[p] = {} end
      end
    elseif line:find '^EVT skipped' then
      local p, from, to = line:match '^EVT skipped s (%d+) (%d+) (%d+)$'
      p, from, to = tonumber(p), tonumber(from), tonumber(to)
      if self.ledger.keeps_all or to <= from then broken('a member of %s was told %q', m.group, line) end
      self:count 'log skipped'
      for offset in pairs(m.returned[p]) do
        if offset < to then m.returned[p][offset] = nil end
      end
    elseif not line:find '^EVT' then
      answered(self, m, line)
    end
  end
end

--- Take some of what is held, from anywhere in it.
local function take_held(m, count)
  local taken = {}
  for i = 1, math.min(count, #m.held) do
    local at = math.random(3) == 1 and math.random(#m.held) or 1
    taken[i] = table.remove(m.held, at)
  end
  return taken
end

function LogTraffic:settle(m, count)
  local taken = take_held(m, count)
  if #taken == 0 or m.client.is_closed then return end
  local kind = math.random(8) == 1 and 'NACK' or 'ACK'
  local words = { kind }
  for i, one in ipairs(taken) do
    words[i + 1] = one.tag
    -- What lies behind one that is refused may be on its way.
    one.is_refused = kind == 'NACK'
    if kind == 'ACK' then
      m.holds[one.partition][one.offset] = nil
      self.ledger:asking(m.group, one.partition, one.offset)
    end
  end
  taken.kind = kind
  m.asked[#m.asked + 1] = taken
  m.said[#m.said + 1] = '> ' .. table.concat(words, ' ')
  send(m.client, table.concat(words, ' ') .. '\r\n')
end

--- Members come; they leave by UNSUB, or with their connection.
function LogTraffic:change_members()
  for _, name in ipairs(GROUPS) do
    local of_group = {}
    for i, m in ipairs(self.members) do
      if m.group == name and m.is_joined then of_group[#of_group + 1] = i end
    end
    if #of_group < MEMBERS_MAX and (#of_group == 0 or math.random(10) == 1) then
      self:join(name)
    elseif math.random(20) == 1 then
      self:leave(of_group[math.random(#of_group)])
    end
  end
end

function LogTraffic:leave(i)
  local m = self.members[i]
  if math.random(2) == 1 then
    table.remove(self.members, i)
    m.client:close()
    return
  end
  m.is_joined = false
  m.asked[#m.asked + 1] = { kind = 'UNSUB' }
  m.client.sock:send 'UNSUB s\r\n'
end

-- ---- a reader ------------------------------------------------------------

--- It has a subscription for each partition, from the offset where it was.
function LogTraffic:open_reader()
  self.reader = self.broker:connect()
  self.is_beginning = {}
  for p = 0, PARTITIONS - 1 do
    self.reading[p] = self.reading[p] or 0
    self.is_beginning[p] = true
    self.reader.sock:send(('SUB %s p%d partition=%d from=%d ack=auto\r\n'):format(TOPIC, p, p, self.reading[p]))
  end
end

function LogTraffic:read_reader()
  while true do
    local line = self.reader:read_line(0)
    if not line then return end
    if line:find '^MSG' then
      local msg = self.reader:delivery(line)
      local p, offset = tonumber(msg.options.partition), tonumber(msg.options.offset)
      -- One that begins is told nothing of what is no longer kept.
      local may_skip = self.is_beginning[p] and not self.ledger.keeps_all and offset > self.reading[p]
      if offset ~= self.reading[p] and not may_skip then
        broken('a reader of partition %d is given %d behind %d', p, offset, self.reading[p] - 1)
      end
      self.is_beginning[p] = false
      self.ledger:seen(p, offset, msg.payload)
      self.reading[p] = offset + 1
    elseif line:find '^EVT skipped' then
      local p, from, to = line:match '^EVT skipped p%d (%d+) (%d+) (%d+)$'
      p, from, to = tonumber(p), tonumber(from), tonumber(to)
      local is_true = from == self.reading[p] or (self.is_beginning[p] and from > self.reading[p])
      if self.ledger.keeps_all or not is_true or to <= from then
        broken('a reader at %d of partition %d was told %q', self.reading[p], p, line)
      end
      self.is_beginning[p], self.reading[p] = false, to
      self:count 'log skipped'
    elseif not line:find '^OK' and not line:find '^ERR s[ht]' and not line:find '^EVT' then
      broken('a reader was told %q', line)
    end
  end
end

--- Drop what lies below some offset near the reader's, or everything.
function LogTraffic:purge()
  local p = math.random(0, PARTITIONS - 1)
  local before = math.max(0, (self.reading[p] or 0) + math.random(-100, 100))
  local words = math.random(5) == 1 and '' or (' before=%d partition=%d'):format(before, p)
  self.reader.sock:send(('PURGE %s%s\r\n'):format(TOPIC, words))
end

-- ---- all of them ---------------------------------------------------------

---@param broker Broker
function LogTraffic:connect(broker)
  self.broker, self.is_open = broker, true
  self.publisher, self.publishing, self.outbox, self.members = broker:connect(), {}, '', {}
  self:open_reader()
  for _, name in ipairs(GROUPS) do self:join(name) end
end

--- A payload that a dead broker did not send to its end does not come.
local function read(client, read_all, ...)
  local ok, err = pcall(read_all, ...)
  if not ok and (type(err) == 'table' or not client.is_closed) then error(err, 0) end
end

--- Read what has come.
function LogTraffic:read()
  for _, m in ipairs(self.members) do read(m.client, read_member, self, m) end
  read(self.reader, self.read_reader, self)
  self:read_confirms()
end

--- Work for some turns; what comes back is read as it comes.
function LogTraffic:work(turns)
  for _ = 1, turns do
    self:publish(math.random(40))
    self:read()
    for _, m in ipairs(self.members) do self:settle(m, math.random(40)) end
    self:change_members()
    if not self.ledger.keeps_all and math.random(10) == 1 then self:purge() end
  end
end

--- All connections end, whatever is on its way.
function LogTraffic:close()
  if not self.is_open then return end
  self.is_open = false
  for _, one in ipairs(self.publishing) do
    if one.has_id then self.unsure[#self.unsure + 1] = one end
  end
  self.publisher:close()
  self.reader:close()
  for _, m in ipairs(self.members) do m.client:close() end
  self.members = {}
end

-- ---- the end -------------------------------------------------------------

--- What Redis has of the groups: they never go back, and are never ahead of the acks.
---@param redis_cli fun(...: string): string
function LogTraffic:sample(redis_cli)
  for p = 0, PARTITIONS - 1 do
    local text = redis_cli('HGETALL', ('tide:{//%s#%d}:groups'):format(TOPIC, p))
    for name, offset in (text .. '\n'):gmatch '(g%d)\n(%d+)\n' do
      self.ledger:committed(name, p, tonumber(offset))
    end
  end
end

local function bounds_of(c)
  local starts, ends = {}, {}
  for p = 0, PARTITIONS - 1 do starts[p], ends[p] = 0, 0 end
  for _, p in ipairs(c:stats(TOPIC).per_partition) do
    starts[p.partition], ends[p.partition] = p.start, p['end']
  end
  return starts, ends
end

--- Everything from the first message on, as a reader sees it.
function LogTraffic:expect_whole()
  local starts, ends = bounds_of(self.publisher)
  self.reader:close()
  self.reading = {}
  self:open_reader()
  local is_read = wait.poll(function()
    self:read_reader()
    for p = 0, PARTITIONS - 1 do
      if self.reading[p] < ends[p] then return false end
    end
    return true
  end, 30)
  if not is_read then
    broken('a reader does not come to the end: %s', require('dkjson').encode(self.publisher:stats(TOPIC)))
  end
  self.ledger:expect_all(starts, ends)
  return bounds_of(self.publisher)
end

--- What a connection has sent before its end may still be carried out, and what it has
--- published may be stored later: nothing of that is left behind.
function LogTraffic:expect_alone()
  local alone = wait.poll(function()
    return #self.publisher:document 'LIST connections' == 2 + #self.members
  end, 30)
  if not alone then broken('connections that were closed do not end') end
  local is_taken = wait.poll(function()
    local refused = self.figures['log refused']
    self:publish(60)
    while #self.publishing > 0 or self.outbox ~= '' do
      self:read()
      send_outbox(self)
      if self.publisher.is_closed then broken('the connection of a publisher ends') end
    end
    return self.figures['log refused'] == refused
  end, 30)
  if not is_taken then broken('publishes are refused for 30 s') end
end

--- The groups go on to the end.
function LogTraffic:drain()
  local deadline = wait.deadline(60)
  while true do
    self:read()
    for _, m in ipairs(self.members) do
      if #m.held > 0 then self:settle(m, #m.held) end
    end
    local lag = 0
    for _, g in ipairs(self.publisher:document 'LIST groups') do lag = lag + g.lag end
    if lag == 0 then return end
    if wait.left(deadline) == 0 then
      broken('the groups do not come to the end: %s',
        require('dkjson').encode(self.publisher:document 'LIST groups'))
    end
  end
end

--- The broker runs, and nobody works: everything is there, and comes to all.
---@param broker Broker
function LogTraffic:finish(broker)
  self:close()
  self:connect(broker)
  self:expect_alone()
  self:drain()
  self.ledger:expect_delivered(self:expect_whole())
  self:close()
end

return LogTraffic
