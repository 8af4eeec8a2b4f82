--- A publisher and a consumer that work without waiting for answers, and keep a ledger:
--- whatever happens to the broker finds requests and answers on their way.
local Ledger = require 'chaos.support.ledger'

---@class BusyTraffic
---@field ledger Ledger
local Traffic = {}
Traffic.__index = Traffic

--- Queues as `declare` makes them, with what a publish to them may say.
Traffic.QUEUES = {
  { name = 'jobs', options = 'dead-letter=-/dead', words = function() return '' end },
  { name = 'ranked', options = 'priority=strict shards=2', words = function() return ' pri=' .. math.random(0, 9) end },
  { name = 'later', options = '', words = function() return ' delay=' .. math.random(300) end },
  { name = 'dead', options = '', words = function() return '' end },
}

---@param ledger Ledger
---@param figures table<string, integer> published, confirmed, refused, delivered, duplicated, acked are counted
---@return BusyTraffic
function Traffic.new(ledger, figures)
  return setmetatable({ ledger = ledger, figures = figures, next = 0, unsure = {} }, Traffic)
end

---@param broker Broker
function Traffic:connect(broker)
  self.publisher, self.consumer = broker:connect(), broker:connect()
  self.publishing, self.settling, self.held = {}, {}, {}
  for _, queue in ipairs(Traffic.QUEUES) do
    self.consumer.sock:send(('SUB %s %s prefetch=%d\r\n'):format(queue.name, queue.name, math.random(5, 100)))
    self.settling[#self.settling + 1] = {}
  end
end

function Traffic:count(what, n) self.figures[what] = (self.figures[what] or 0) + (n or 1) end

local function publish_one(self, one)
  self.publishing[#self.publishing + 1] = one
  self:count 'published'
  return ('PUB - %s%s h:n=%s %d\r\n%s\r\n'):format(one.queue, one.words, one.header, #one.text, one.text)
end

--- A message with a text of its own, for `queue`.
local function new_message(self, queue, words)
  self.next = self.next + 1
  local header = tostring(self.next)
  local one = {
    text = header .. (' '):rep(self.next % 7 == 0 and 3000 or 0), header = header, queue = queue, words = words,
  }
  self.ledger:sent(one.text, { queue }, {
    exchange = '-', key = queue, pri = words:match 'pri=([1-9])', headers = { n = header },
  })
  return one
end

--- Some messages. What was sent with an id of its own and has no answer is sent again.
function Traffic:publish(count)
  local lines = {}
  for _, one in ipairs(self.unsure) do lines[#lines + 1] = publish_one(self, one) end
  self.unsure = {}
  for _ = 1, count do
    local queue = Traffic.QUEUES[math.random(3)]
    local publish_id = math.random(3) == 1 and ' id=p' .. self.next or ''
    local one = new_message(self, queue.name, queue.words() .. publish_id)
    one.has_id = publish_id ~= ''
    lines[#lines + 1] = publish_one(self, one)
  end
  self.publisher.sock:send(table.concat(lines))
end

--- It was refused. A consumer may have had it before that, so that the next publish
--- with its id is another message.
local function refused(self, one)
  self:count 'refused'
  if not one.has_id then return end
  local again = new_message(self, one.queue, one.words)
  again.has_id, again.is_repeated = true, true
  self.unsure[#self.unsure + 1] = again
end

local function confirmed(self, one, id, is_duplicate)
  self:count 'confirmed'
  -- Which of the messages with this id it is, nobody knows.
  if is_duplicate and one.is_repeated then return end
  self.ledger:confirmed(one.text, { one.queue }, id, is_duplicate)
end

local function read_answers(self)
  while true do
    local line = self.publisher:read_line(0)
    if not line then return end
    if not line:find '^EVT' then
      local one = table.remove(self.publishing, 1)
      local id, rest = line:match '^OK (%x+) 1(.*)$'
      if id then
        confirmed(self, one, id, rest ~= '')
      elseif line:find '^ERR store' or line:find '^ERR shutdown' or line:find '^ERR busy' then
        refused(self, one)
      else
        Ledger.broken('a publish was answered %q', line)
      end
    end
  end
end

local function read_delivery(self, line)
  local msg = self.consumer:delivery(line)
  local copy = self.ledger:seen(msg.sid, msg.payload, {
    id = msg.options.id, pri = msg.options.pri or '0', exchange = msg.exchange, key = msg.key,
    headers = msg.headers,
  })
  self:count 'delivered'
  if copy.was_handed_out then self:count 'duplicated' end
  copy.was_handed_out = true
  self.held[#self.held + 1] = { tag = msg.tag, queue = msg.sid, copy = copy }
end

local function read_deliveries(self)
  while true do
    local line = self.consumer:read_line(0)
    if not line then return end
    if line:find '^MSG' then
      read_delivery(self, line)
    elseif line:find '^OK' then
      local done = table.remove(self.settling, 1)
      if done.is_acked then
        self:count 'acked'
        self.ledger:removed(done.copy, done.queue)
      end
    elseif line:find '^ERR' then
      local done = table.remove(self.settling, 1)
      if line:find 'lease%-lost' and done.is_acked then self.ledger:kept(done.copy) end
    end
  end
end

function Traffic:settle(count)
  local lines = {}
  for _ = 1, math.min(count, #self.held) do
    local one = table.remove(self.held, 1)
    self.settling[#self.settling + 1] = one
    if math.random(20) == 1 then
      one.copy.was_handed_out = false -- it is asked for again
      lines[#lines + 1] = ('NACK %s delay=%d\r\n'):format(one.tag, math.random(100))
    elseif math.random(50) == 1 and one.queue == 'jobs' then
      one.copy.was_handed_out = false
      self.ledger:moving(one.copy, 'dead')
      lines[#lines + 1] = ('NACK %s dead\r\n'):format(one.tag)
    else
      one.is_acked = true
      self.ledger:removing(one.copy)
      lines[#lines + 1] = ('ACK %s\r\n'):format(one.tag)
    end
  end
  self.consumer.sock:send(table.concat(lines))
end

--- Read what has come. A payload that a dead broker did not send to its end does not.
function Traffic:read()
  local ok, err = pcall(read_deliveries, self)
  if not ok and (type(err) == 'table' or self.consumer.is_closed == false) then error(err, 0) end
  read_answers(self)
end

--- Work for some turns; what comes back is read as it comes.
function Traffic:work(turns)
  for _ = 1, turns do
    self:publish(math.random(40))
    self:read()
    self:settle(math.random(40))
  end
end

--- Both connections end, whatever is on its way.
function Traffic:close()
  for _, one in ipairs(self.publishing) do
    if one.has_id then self.unsure[#self.unsure + 1] = one end
  end
  self.publishing = {}
  self.publisher:close()
  self.consumer:close()
end

return Traffic
