-- Two brokers on one Redis, both with clients: the holder is stopped, killed, ended, cut off
-- from Redis and goes on at random. Nothing that was confirmed is lost or overwritten, nothing
-- that was acknowledged comes back, and a former holder writes nothing.
-- TIDE_CHAOS_ROUNDS is the number of faults (default 6), TIDE_TEST_SEED repeats a run.
local Pair = require 'chaos.support.pair'
local socket = require 'socket'
local wait = require 'support.wait'

local rounds = tonumber(os.getenv 'TIDE_CHAOS_ROUNDS') or 6
local seed = require 'support.seed'

--- What was promised for each payload.
---@class Promises
---@field sent table<string, true>
---@field late table<string, true> given to a former holder alone
---@field confirmed table<string, string> with the id
---@field ids table<string, string>
---@field acked table<string, true> asked for
---@field settled table<string, true> answered OK

--- Clients of one broker.
---@class Peer
local Peer = {}
Peer.__index = Peer

---@return Peer
function Pair:open(broker)
  local self_ = { pair = self, broker = broker, publishing = {}, held = {}, acking = {} }
  self_.publisher, self_.consumer = broker:connect(), broker:connect()
  self_.consumer:ok 'SUB jobs s prefetch=30'
  return setmetatable(self_, Peer)
end

--- Some messages on their way, none of which is waited for.
function Peer:publish(count, is_late)
  local pair, lines = self.pair, {}
  for i = 1, count do
    pair.count = pair.count + 1
    local text = tostring(pair.count)
    pair.promises.sent[text] = true
    pair.promises.late[text] = is_late
    self.publishing[#self.publishing + 1] = text
    lines[i] = ('PUB - jobs h:is=%s %d\r\n%s\r\n'):format(text, #text, text)
  end
  self.publisher.sock:send(table.concat(lines))
end

function Peer:read_confirms()
  local promises = self.pair.promises
  for line in function() return (self.publisher:read_line(0)) end do
    local text = not line:find '^EVT' and table.remove(self.publishing, 1)
    local id = line:match '^OK (%x+) 1$'
    if id then
      assert(not promises.ids[id], ('id %s was given to %s and %s'):format(id, promises.ids[id], text))
      promises.confirmed[text], promises.ids[id] = id, text
    end
  end
end

function Peer:take(msg)
  local promises, text = self.pair.promises, msg.payload
  assert(promises.sent[text] and msg.headers.is == text, 'it was never sent so: ' .. text)
  local id = promises.confirmed[text]
  assert(not id or id == msg.options.id, ('%s was confirmed as %s and is %s'):format(text, id, msg.options.id))
  -- A former holder that has not noticed may hand out what it has in memory.
  if (promises.settled[text] or promises.late[text]) and self.pair:is_holder(self.broker) then
    error(('%s %s'):format(text, promises.late[text] and 'was written by a former holder'
      or 'was acknowledged with OK and comes back'))
  end
  self.held[#self.held + 1] = { tag = msg.tag, text = text }
end

function Peer:read_deliveries()
  local consumer, promises = self.consumer, self.pair.promises
  for line in function() return (consumer:read_line(0)) end do
    if line:find '^MSG' then
      consumer.input = line .. '\r\n' .. consumer.input
      -- What a killed broker had half sent does not come.
      local ok, msg = pcall(consumer.expect_msg, consumer, 5)
      if not ok then return end
      self:take(msg)
    else
      local done = not line:find '^EVT' and table.remove(self.acking, 1)
      if done and line:find '^OK' then promises.settled[done] = true end
    end
  end
end

function Peer:settle(count)
  local lines = {}
  for i = 1, math.min(count, #self.held) do
    local one = table.remove(self.held, 1)
    lines[i] = ('ACK %s\r\n'):format(one.tag)
    self.acking[#self.acking + 1] = one.text
    self.pair.promises.acked[one.text] = true
  end
  self.consumer.sock:send(table.concat(lines))
end

function Peer:read()
  self:read_deliveries()
  self:read_confirms()
end

function Peer:work(turns)
  for _ = 1, turns do
    self:publish(math.random(20))
    self:read()
    self:settle(math.random(12))
  end
end

--- Until the broker has confirmed one that was sent now.
function Peer:work_confirmed()
  self:publish(1)
  local last = self.publishing[#self.publishing]
  assert(wait.poll(function()
    self:work(1)
    return self.pair.promises.confirmed[last]
  end, 30), 'a publish is not confirmed')
end

function Peer:close()
  self:read()
  self.publisher:close()
  self.consumer:close()
end

local function pause(seconds)
  -- A duration is what these faults have.
  socket.sleep(seconds)
end

--- The holder can do nothing for so long that the other one takes over; then it goes on.
local function until_taken_over(stop, go)
  return function(pair, peer, other)
    stop(pair, peer.broker)
    peer:work(3)
    assert(other:wait_ready() == true, other:log())
    local successor = pair:open(other)
    successor:work_confirmed()
    peer:publish(5, true)
    peer:settle(5)
    go(pair, peer.broker)
    successor:work(10)
    assert(wait.poll(function() return peer.broker:exit_status() end, 30), 'the former holder goes on')
    assert.equal(1, peer.broker:exit_status())
    peer:read()
    successor:work_confirmed()
    successor:close()
  end
end

--- It goes on, before or after the other one has taken over.
local function for_a_while(stop, go)
  return function(pair, peer)
    stop(pair, peer.broker)
    peer:work(2)
    pause(math.random() * 5)
    go(pair, peer.broker)
    peer:work(5)
  end
end

local function process(name) return function(_, broker) broker:signal(name) end end
local function connection(name) return function(pair, broker) pair.proxies[broker]:signal(name) end end

local faults = {
  { 'killed', function(_, peer) peer.broker:kill9() end },
  { 'told to end', function(_, peer) peer.broker:expect_clean_stop(30) end },
  { 'stopped until it is taken over', until_taken_over(process 'STOP', process 'CONT') },
  { 'cut off until it is taken over', until_taken_over(connection 'STOP', connection 'CONT') },
  { 'stopped for a while', for_a_while(process 'STOP', process 'CONT') },
  { 'cut off for a while', for_a_while(connection 'STOP', connection 'CONT') },
  { 'disconnected', function(pair, peer)
    for _ = 1, 3 do
      pair.proxies[peer.broker]:cut()
      peer:work_confirmed()
    end
    assert(pair:is_holder(peer.broker), 'it has lost the store')
  end },
  { 'watched by a standby that stands still', function(_, peer, other)
    other:signal 'STOP'
    peer:work_confirmed()
    other:signal 'CONT'
    peer:work_confirmed()
  end },
}

--- Take all that is left: what was confirmed is among it, what was settled is not.
local function drain(pair)
  local peer = pair:open((pair:roles()))
  local promises, seen = pair.promises, {}
  assert(wait.poll(function()
    peer:read()
    for _, one in ipairs(peer.held) do seen[one.text] = true end
    peer:settle(#peer.held)
    local stats = peer.publisher:document 'STATS jobs'
    return stats.ready + stats.delayed + stats.unacked + stats.buried == 0
  end, 60), 'the queue does not become empty')
  for text in pairs(promises.confirmed) do
    assert(seen[text] or promises.acked[text], 'lost: ' .. text)
  end
  for _, set in ipairs { 'ready', 'delayed', 'unack', 'buried', 'msg', 'tries' } do
    assert(wait.poll(function() return pair.redis:cli('EXISTS', 'tide:{//jobs#0}:' .. set) == '0' end),
      'something is left in ' .. set)
  end
end

describe('with two brokers on one Redis (TIDE_TEST_SEED=' .. seed .. ')', function()
  it('nothing confirmed is lost whatever happens to the holder', function()
    math.randomseed(seed)
    local pair = Pair.start()
    pair.count = 0
    pair.promises = { sent = {}, late = {}, confirmed = {}, ids = {}, acked = {}, settled = {} }
    finally(function() pair:destroy() end)
    pair:roles():connect():ok 'DECLARE queue jobs'
    local order = {}
    for round = 1, rounds do
      if #order == 0 then
        for i = 1, #faults do table.insert(order, math.random(#order + 1), i) end
      end
      local name, fault = table.unpack(faults[table.remove(order)])
      local holder, other = pair:roles()
      local peer = pair:open(holder)
      peer:work(math.random(5, 20))
      peer:work_confirmed()
      local ok, err = pcall(function()
        fault(pair, peer, other)
        peer:close()
      end)
      if not ok then
        error(('round %d, the holder was %s: %s\n%s\n\n%s'):format(round, name, err, holder:log(), other:log()))
      end
    end
    drain(pair)
  end)
end)
