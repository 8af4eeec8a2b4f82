-- kill -9 at random moments, with publishers and consumers at work: nothing that
-- was confirmed and not acknowledged is lost, nothing acknowledged comes back.
-- TIDE_CHAOS_ROUNDS kills that often (default 4), TIDE_TEST_SEED repeats a run.
local Broker = require 'support.broker'
local shell = require 'support.shell'
local wait = require 'support.wait'

local rounds = tonumber(os.getenv 'TIDE_CHAOS_ROUNDS') or 4
local seed = require 'support.seed'

--- What was promised for each payload.
local Ledger = {}
Ledger.__index = Ledger

local function new_ledger()
  return setmetatable({ next = 0, confirmed = {}, acked = {}, settled = {}, refused = 0, deliveries = 0 }, Ledger)
end

--- A connection that publishes and one that consumes; each reads its answers
--- when they are there, so that a kill finds some on their way.
local Traffic = {}
Traffic.__index = Traffic

local function open(broker, ledger, options)
  local self = setmetatable({
    ledger = ledger, options = options, publishing = {}, acking = {}, held = {},
    publisher = broker:connect(), consumer = broker:connect(), is_dead = false,
  }, Traffic)
  self.consumer:ok('SUB jobs s prefetch=' .. options.prefetch)
  return self
end

function Traffic:publish(count)
  local lines = {}
  for i = 1, count do
    local ledger = self.ledger
    ledger.next = ledger.next + 1
    local text = tostring(ledger.next)
    self.publishing[#self.publishing + 1] = text
    lines[i] = ('PUB - jobs%s %d\r\n%s\r\n'):format(self.options.words(), #text, text)
  end
  self.publisher.sock:send(table.concat(lines))
end

--- The complete lines that have arrived; a closed connection ends them.
local function arrived(client)
  return function()
    local line = client:read_line(0)
    return line
  end
end

function Traffic:read_answers()
  for line in arrived(self.publisher) do
    local text = not line:find '^EVT' and table.remove(self.publishing, 1)
    if line:find '^OK %x+ 1' then
      self.ledger.confirmed[text] = true
    elseif text then
      self.ledger.refused = self.ledger.refused + 1
    end
  end
end

function Traffic:read_deliveries()
  for line in arrived(self.consumer) do
    local tag, len = line:match '^MSG s (%d+) .- (%d+)$'
    if tag then
      local text = self.consumer:expect_payload(len)
      if self.ledger.settled[text] then self.ledger.wrong = text end
      self.ledger.deliveries = self.ledger.deliveries + 1
      self.held[#self.held + 1] = { tag = tag, text = text }
    elseif line:find '^OK' then
      local done = table.remove(self.acking, 1)
      if done then self.ledger.settled[done] = true end
    elseif line:find '^ERR' then
      table.remove(self.acking, 1)
    end
  end
end

function Traffic:settle(count)
  local lines = {}
  for _ = 1, math.min(count, #self.held) do
    local one = table.remove(self.held, 1)
    if math.random(20) == 1 then
      lines[#lines + 1] = ('NACK %s delay=%d\r\n'):format(one.tag, math.random(100))
      self.acking[#self.acking + 1] = false
    else
      lines[#lines + 1] = ('ACK %s\r\n'):format(one.tag)
      self.acking[#self.acking + 1] = one.text
      self.ledger.acked[one.text] = true
    end
  end
  self.consumer.sock:send(table.concat(lines))
end

--- Work for some turns; what comes back is read as it comes.
function Traffic:work(turns)
  for _ = 1, turns do
    self:publish(math.random(40))
    -- A payload that is on its way to a broker that is killed does not come.
    pcall(self.read_deliveries, self)
    self:read_answers()
    self:settle(math.random(self.options.settle))
  end
end

--- Take all that is left, until every confirmed message was seen acknowledged.
local function drain(broker, ledger)
  local c = broker:connect()
  local seen = {}
  local deadline = wait.deadline(30)
  while wait.left(deadline) > 0 do
    c:send 'GET jobs max=1000 wait=50ms\r\n'
    local n = tonumber((c:expect '^OK (%d+)$'))
    local first, last
    for _ = 1, n do
      local msg = c:expect_msg()
      assert(not ledger.settled[msg.payload], 'was acknowledged with OK and comes back: ' .. msg.payload)
      seen[msg.payload] = true
      first, last = first or msg.tag, msg.tag
    end
    if first then c:ok(('ACK %s-%s'):format(first, last)) end
    local stats = c:document 'STATS jobs'
    if stats.ready + stats.delayed + stats.unacked + stats.buried == 0 then break end
  end
  for text in pairs(ledger.confirmed) do
    assert(seen[text] or ledger.acked[text], 'lost: ' .. text)
  end
  for _, set in ipairs { 'ready', 'delayed', 'unack', 'buried', 'msg', 'tries' } do
    -- A Redis whose broker was killed is told to end, which it may do only now.
    assert(wait.poll(function()
      return broker:redis_cli('EXISTS', ('tide:{//jobs#0}:%s'):format(set)) == '0'
    end), 'something is left in ' .. set)
  end
  local text, status = shell.run(('%s check-store --data %s 2>&1'):format(shell.quote(Broker.binary()),
    shell.quote(broker.data)))
  assert.equal(0, status, text)
end

local modes = {
  fifo = { prefetch = 100, settle = 30, words = function() return '' end },
  ['a strict queue whose consumers are slow'] = {
    prefetch = 50, settle = 6, declare = ' priority=strict',
    words = function() return ' pri=' .. math.random(0, 9) end,
  },
  ['delayed messages'] = {
    prefetch = 300, settle = 50,
    words = function() return math.random(2) == 1 and ' delay=' .. math.random(300) or '' end,
  },
}

local function run(mode, how)
  math.randomseed(seed)
  local broker = Broker.start { args = { '--window-messages', '100' } }
  finally(function() broker:destroy() end)
  broker:connect():ok('DECLARE queue jobs' .. (mode.declare or ''))
  local ledger = new_ledger()
  for round = 1, rounds do
    local traffic = open(broker, ledger, mode)
    traffic:work(math.random(10, 60))
    -- A machine may be so slow that nothing has been answered by now.
    assert(wait.poll(function()
      if round > 1 or (next(ledger.confirmed) and ledger.deliveries > 0) then return true end
      traffic:work(5)
    end, 30), 'there was no traffic')
    how(broker, traffic)
    if broker:is_running() then
      traffic:work(math.random(5, 30))
    else
      -- What was answered before the end counts.
      pcall(traffic.read_deliveries, traffic)
      traffic:read_answers()
      broker:restart()
    end
    traffic.publisher:close()
    traffic.consumer:close()
  end
  drain(broker, ledger)
  assert(not ledger.wrong, ('%s was acknowledged with OK and came back'):format(ledger.wrong))
end

describe('nothing confirmed is lost (TIDE_TEST_SEED=' .. seed .. ')', function()
  for name, mode in pairs(modes) do
    it('when broker and Redis are killed: ' .. name, function()
      run(mode, function(broker) broker:kill9_all() end)
    end)

    it('when the broker is killed: ' .. name, function()
      run(mode, function(broker) broker:kill9() end)
    end)

    it('when Redis is killed: ' .. name, function()
      run(mode, function(broker)
        broker:kill9_redis()
        assert(wait.poll(function() return pcall(broker.redis_pid, broker) end), 'no Redis again')
      end)
    end)
  end

  it('when Redis is stopped for a moment', function()
    run(modes.fifo, function(broker, traffic)
      local pid = broker:redis_pid()
      os.execute('kill -STOP ' .. pid)
      traffic:work(math.random(20))
      os.execute('kill -CONT ' .. pid)
    end)
  end)

  it('when the broker is told to stop', function()
    run(modes.fifo, function(broker) broker:expect_clean_stop() end)
  end)
end)
