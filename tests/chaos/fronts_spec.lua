-- Three brokers on one Redis, each with clients: the owner and the fronts are killed, stopped, and told to end at
-- random. Clients come back to the same broker. Nothing that was confirmed is lost, and nothing that was
-- acknowledged comes back. Then the same with a store of two cells, with clients of both at each of the brokers.
-- TIDE_CHAOS_ROUNDS is the number of faults (default 4), TIDE_TEST_SEED repeats a run.
local Broker = require 'support.broker'
local Redis = require 'support.redis'
local socket = require 'socket'
local wait = require 'support.wait'

local rounds = tonumber(os.getenv 'TIDE_CHAOS_ROUNDS') or 4
local seed = require 'support.seed'

--- A publisher and a consumer of one broker, that connect again when it has closed them.
---@class Peer
---@field vhost string
local Peer = {}
Peer.__index = Peer

--- Its connections, made anew if they have ended. False: nobody listens there.
function Peer:connect()
  if self.publisher and not (self.publisher.is_closed or self.consumer.is_closed) then return true end
  if not self.broker:is_running() then return false end
  if self.publisher then
    self.publisher:close()
    self.consumer:close()
  end
  self.publisher = nil
  self.publishing, self.held, self.acking = {}, {}, {}
  local ok, publisher = pcall(self.broker.connect, self.broker)
  local good, consumer = pcall(self.broker.connect, self.broker)
  if not ok or not good then return false end
  self.publisher, self.consumer, self.is_former = publisher, consumer, false
  self.is_subscribed = false
  publisher:send(('HELLO vhost=%s\r\n'):format(self.vhost))
  consumer:send(('HELLO vhost=%s\r\nSUB jobs s prefetch=30\r\n'):format(self.vhost))
  return true
end

--- Messages that were confirmed and are not acknowledged.
function Peer:count(more)
  self.ledger.backlog[self.vhost] = self.ledger.backlog[self.vhost] + more
end

function Peer:publish(count)
  local lines = {}
  -- What a broker that stands still has not answered fits into the sockets: no line is sent in part.
  if #self.publishing > 500 then return end
  -- What lies in the queues at the end is to be read, too.
  if self.ledger.backlog[self.vhost] > 3000 then return end
  for i = 1, count do
    self.ledger.count = self.ledger.count + 1
    local text = tostring(self.ledger.count)
    self.publishing[#self.publishing + 1] = text
    lines[i] = ('PUB - jobs %d\r\n%s\r\n'):format(#text, text)
  end
  self.publisher.sock:send(table.concat(lines))
end

function Peer:read_confirms()
  for line in function() return (self.publisher:read_line(0)) end do
    local is_greeting = line:find '^DATA' or line:find '^{'
    local text = not line:find '^EVT' and not is_greeting and table.remove(self.publishing, 1)
    if text and line:find '^OK %x+ 1$' then
      self.ledger.confirmed[text] = true
      self:count(1)
    end
  end
end

function Peer:read_deliveries()
  local ledger, consumer = self.ledger, self.consumer
  for line in function() return (consumer:read_line(0)) end do
    if line:find '^MSG' then
      consumer.input = line .. '\r\n' .. consumer.input
      local ok, msg = pcall(consumer.expect_msg, consumer, 5)
      -- The half of one that the end has cut off, or that does not go on: its line is lost.
      if not ok then
        consumer.is_closed = true
        return
      end
      -- A former owner that has not noticed may hand out what it has in memory.
      local is_wrong = ledger.settled[msg.payload] and not self.is_former
      assert(not is_wrong, msg.payload .. ' was acknowledged with OK and comes back')
      self.held[#self.held + 1] = { tag = msg.tag, text = msg.payload }
    elseif not line:find '^EVT' and not line:find '^DATA' and not line:find '^{' and self.is_subscribed then
      local done = table.remove(self.acking, 1)
      if done and line:find '^OK' then ledger.settled[done] = true end
    else
      self.is_subscribed = self.is_subscribed or line:find '^OK' ~= nil
    end
  end
end

function Peer:settle(count)
  local lines = {}
  for i = 1, math.min(count, #self.held) do
    local one = table.remove(self.held, 1)
    lines[i] = ('ACK %s\r\n'):format(one.tag)
    self.acking[#self.acking + 1] = one.text
    self.ledger.acked[one.text] = true
    self:count(-1)
  end
  self.consumer.sock:send(table.concat(lines))
end

function Peer:work(count)
  if not self:connect() then return end
  self:publish(count)
  self:read_deliveries()
  self:read_confirms()
  self:settle(math.random(20))
end

--- A publish that is sent from now on is confirmed.
function Peer:work_confirmed()
  local known = self.ledger.count
  assert(wait.poll(function()
    -- A former owner that goes on ends by itself, and may take a moment for it.
    if not self.broker:is_running() then self.broker:run() end
    self:work(1)
    for text in pairs(self.ledger.confirmed) do
      if tonumber(text) > known then return true end
    end
  end, 40), 'a publish is not confirmed')
end

local faults = {
  { 'killed', function(broker) broker:kill9() end },
  { 'told to end', function(broker) broker:expect_clean_stop(30) end },
  { 'stopped', function(broker, work, peers)
    broker:signal 'STOP'
    local till = socket.gettime() + math.random() * 6
    while socket.gettime() < till do work() end
    -- What others had of it is known to be over within half a second.
    for _, peer in ipairs(peers) do peer.is_former = true end
    broker:signal 'CONT'
  end },
}

--- Peers of each vhost at each of three brokers.
local function start(redis, vhosts, ledger, ...)
  local brokers, peers = {}, {}
  for i = 1, 3 do
    brokers[i] = Broker.start { listen = { 'unix:@DIR@/broker.sock' },
      args = { '--store', redis.url, '--cluster', 'unix:@DIR@/gate.sock', '--node', i, '--drain-timeout', '2s', ... } }
    for _, vhost in ipairs(vhosts) do
      peers[#peers + 1] = setmetatable({ broker = brokers[i], vhost = vhost, ledger = ledger,
        publishing = {}, held = {}, acking = {} }, Peer)
    end
  end
  for _, vhost in ipairs(vhosts) do
    ledger.backlog[vhost] = 0
    -- An owner may be on its way.
    assert(wait.poll(function()
      local _, status = brokers[1]:cli('declare', 'vhost', vhost)
      return status == 0
    end, 30))
    local c = brokers[2]:connect()
    c:document('HELLO vhost=' .. vhost)
    c:ok 'DECLARE queue jobs'
    c:close()
  end
  return brokers, peers
end

--- Everything that was confirmed has been seen.
local function check_ledger(peers, ledger)
  local seen, last = {}, ''
  local is_empty = wait.poll(function()
    local left = 0
    for _, peer in ipairs(peers) do
      if peer:connect() then
        peer:read_deliveries()
        peer:read_confirms()
        for _, one in ipairs(peer.held) do seen[one.text] = true end
        peer:settle(#peer.held)
      end
      local c = peer.broker:connect()
      c:document('HELLO vhost=' .. peer.vhost)
      local stats = c:stats 'jobs'
      c:close()
      left = left + stats.ready + stats.unacked
      last = ('%s: %d ready, %d unacked; %d held here'):format(peer.vhost, stats.ready, stats.unacked, #peer.held)
    end
    return left == 0
  end, 60)
  assert(is_empty, 'a queue does not become empty; ' .. last)
  local confirmed = 0
  for text in pairs(ledger.confirmed) do
    confirmed = confirmed + 1
    assert(seen[text] or ledger.acked[text], 'lost: ' .. text)
  end
  return confirmed
end

--- @param records string[] of the holders, one of each vhost
local function run(vhosts, records, ...)
  math.randomseed(seed)
  local redis = Redis.start()
  local ledger = { count = 0, backlog = {}, confirmed = {}, acked = {}, settled = {} }
  local brokers, peers
  finally(function()
    for _, broker in ipairs(brokers or {}) do broker:destroy() end
    redis:destroy()
  end)
  brokers, peers = start(redis, vhosts, ledger, ...)
  local function work_all()
    for _, peer in ipairs(peers) do peer:work(math.random(20)) end
  end
  for round = 1, rounds do
    local which, fault = math.random(3), faults[(round + seed) % #faults + 1]
    -- Every other round it is an owner.
    local owners = {}
    for i, vhost in ipairs(vhosts) do owners[vhost] = tonumber(redis:cli('HGET', records[i], 'node')) end
    which = round % 2 == 0 and owners[vhosts[math.random(#vhosts)]] or which
    for _ = 1, 10 do work_all() end
    local ok, err = pcall(function()
      local of_broken = {}
      for _, peer in ipairs(peers) do
        local is_its = peer.broker == brokers[which] or owners[peer.vhost] == which
        if is_its then of_broken[#of_broken + 1] = peer end
      end
      fault[2](brokers[which], function()
        for _, peer in ipairs(peers) do
          if peer.broker ~= brokers[which] then peer:work(5) end
        end
      end, of_broken)
      for _ = 1, 5 do work_all() end
      for _, peer in ipairs(peers) do peer:work_confirmed() end
    end)
    if not ok then
      error(('round %d, node %d was %s: %s\n%s\n\n%s\n\n%s'):format(round, which, fault[1], err, brokers[1]:log(),
        brokers[2]:log(), brokers[3]:log()))
    end
  end
  assert.is_true(check_ledger(peers, ledger) > rounds * 20)
end

describe('with three brokers of one store (TIDE_TEST_SEED=' .. seed .. ')', function()
  it('nothing confirmed is lost whatever happens to the owner and the fronts', function()
    run({ '/' }, { '{tide}:holder' })
  end)

  it('nothing confirmed is lost whatever happens to the owners of two cells', function()
    -- One is of cell 0, the other of cell 1.
    run({ 'shop-2', 'shop-1' }, { '{tide}:holder:0', '{tide}:holder:1' }, '--cells', '2')
  end)
end)
