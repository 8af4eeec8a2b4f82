-- What one peer, or one slow script, may take of the broker: a slice of each turn.
local Broker = require 'support.broker'
local wait = require 'support.wait'

-- Some 5 ms of a processor, or 50 on a slow machine: the budget of a call is far more.
local SLOW = 'local function work() for i = 1, 500000 do end end\n'

describe('a broker with slow scripts', function()
  local broker, c, other

  local function start(rules, args)
    broker = Broker.start { rules = rules, args = args or { '--store', 'none', '--rules-budget', '5s' } }
    c, other = broker:connect(), broker:connect()
  end

  after_each(function()
    if broker then broker:destroy() end
    broker = nil
  end)

  local function count_lines(client)
    local count = 0
    while client:read_line(0) do count = count + 1 end
    return count
  end

  it('answers others between the publishes of one, all in one packet', function()
    start { ['filter/10_slow.lua'] = SLOW .. 'return { match = { exchange = "*" }, publish = work }' }
    c:ok 'DECLARE queue q'
    c:send(('PUB - q 1\r\nx\r\n'):rep(200))
    other:ok 'PING'
    local answered = count_lines(c)
    assert.is_true(answered < 100, answered .. ' of 200 were answered before')
    for _ = answered + 1, 200 do c:expect '^OK %x+ 1$' end
  end)

  it('answers others within a NACK of many, and settles all of them', function()
    start { ['retry/slow.lua'] = SLOW .. 'return { decide = function() work() return 0 end }' }
    c:ok 'DECLARE queue q retry=slow delivery-limit=0'
    for _ = 1, 200 do c:ok('PUB - q', 'x') end
    c:ok 'SUB q s prefetch=200'
    for _ = 1, 200 do c:expect_msg() end
    c:ok 'UNSUB s'
    -- What comes behind it waits for it.
    c:send 'NACK 1-100 101 102-200\r\nPING quiet\r\nSTATS q\r\n'
    other:ok 'PING'
    assert.is_true(count_lines(c) == 0, 'the NACK was answered before')
    c:expect_line 'OK 200'
    local stats = c:expect_json()
    assert.same({ 200, 0 }, { stats.ready, stats.unacked })
  end)

  it('answers others while a queue of many bindings is deleted, which lead nowhere at once', function()
    start { ['routing/slow.lua'] = SLOW .. [[
      local count = tide.counter 'unbound'
      return {
        new = function() return {} end,
        bind = function(index, pattern, dest) index[dest] = pattern end,
        unbind = function(index, _, dest) work() index[dest] = nil count:incr() end,
        route = function(index, msg, to)
          for dest, pattern in pairs(index) do if pattern == msg.key then to(dest) end end
        end,
      }]] }
    local function unbound()
      return c:document('STATS').counters.unbound or 0
    end
    c:ok 'DECLARE exchange x slow'
    c:ok 'DECLARE queue q'
    c:ok 'DECLARE queue other'
    for i = 1, 150 do c:ok('BIND q x k' .. i) end
    c:ok 'BIND other x k30'
    c:ok 'DELETE queue q'
    other:ok 'PING'
    assert.is_true(unbound() < 150, unbound())
    -- The numbers of those that the script still has are not used again.
    c:ok 'DECLARE queue q'
    c:ok 'BIND q x k150'
    for key, n in pairs { k149 = 0, k150 = 1, k30 = 1 } do
      c:send(('PUB x %s 1\r\nx\r\n'):format(key))
      c:expect('^OK %x+ ' .. n .. '$')
    end
    assert(wait.poll(function() return unbound() == 150 end))
    c:send 'PUB x k150 1\r\nx\r\n'
    c:expect '^OK %x+ 1$'
    c:ok 'DELETE queue q'
    assert(wait.poll(function() return unbound() == 151 end))
  end)

  it('forgets an exchange whose bindings it has not been told to be gone', function()
    start { ['routing/slow.lua'] = SLOW .. [[
      return { new = function() return {} end, bind = function() end, unbind = work, route = function() end }]] }
    c:ok 'DECLARE exchange x slow auto-delete=1'
    c:ok 'DECLARE exchange y slow'
    c:ok 'DECLARE queue q'
    for i = 1, 30 do
      c:ok('BIND q x k' .. i)
      c:ok('BIND q y k' .. i)
    end
    c:send 'DELETE queue q\r\nDELETE exchange y\r\nBIND q x a\r\n'
    c:expect_line 'OK'
    c:expect_line 'OK'
    c:expect_line "ERR not-found there is no exchange 'x' in vhost '/'"
  end)

  it('frees a queue of many messages over some turns', function()
    start()
    c:ok 'DECLARE queue q'
    c:send(('PUB - q quiet 1\r\nx\r\n'):rep(100000))
    c:send 'DELETE queue q\r\nDECLARE queue q\r\nSTATS q\r\n'
    c:expect_line 'OK'
    c:expect_line 'OK'
    assert.equal(0, c:expect_json().ready)
    assert(wait.poll(function()
      return c:document('STATS').memory_bytes == 0
    end))
    c:send(('PUB - q quiet 1\r\nx\r\n'):rep(100000))
    c:ok 'DELETE queue q'
    broker:expect_clean_stop() -- which frees the rest
  end)

  it('returns what a NACK under way has not reached when its connection is lost', function()
    start { ['retry/slow.lua'] = SLOW .. 'return { decide = function() work() return 0 end }' }
    c:ok 'DECLARE queue q retry=slow delivery-limit=0'
    for _ = 1, 100 do c:ok('PUB - q', 'x') end
    c:ok 'SUB q s prefetch=100'
    for _ = 1, 100 do c:expect_msg() end
    c:send 'NACK 1-100\r\n'
    other:ok 'PING'
    c:close()
    assert.is_true(wait.poll(function()
      return other:document('STATS q').ready == 100
    end))
    broker:expect_clean_stop()
  end)

  it('runs a schedule that is slower than its interval, and everything else too', function()
    start { ['schedule/slow.lua'] = SLOW .. [[
      return { every = '10ms', run = function(broker)
        for _ = 1, 4 do work() end
        broker.publish { key = 'q', payload = 'tick' }
      end }]] }
    c:ok 'DECLARE queue q'
    for _ = 1, 20 do c:ok 'PING' end
    c:send 'GET q max=5 wait=20s\r\n'
    c:expect '^OK [1-5]$'
    broker:remove_rule 'schedule/slow.lua'
    c:send 'RULES reload\r\n'
    c:drain_until '^DATA'
    broker:expect_clean_stop()
  end)
end)

describe('a connection', function()
  local broker

  after_each(function() broker:destroy() end)

  it('that asks for much and reads nothing is given no more than its mark', function()
    broker = Broker.start { args = { '--store', 'none' } }
    local c, greedy = broker:connect(), broker:connect()
    c:ok 'DECLARE queue q'
    local payload = ('x'):rep(10000)
    for _ = 1, 100 do c:ok('PUB - q', payload) end
    local before = broker:memory()
    greedy:send(('PEEK q 100\r\n'):rep(400))
    greedy:send(('LIST queues\r\n'):rep(400))
    c:ok 'PING'
    broker:expect_memory_below(before + 50e6)
    for _ = 1, 20 do assert.equal(100, #greedy:expect_json().messages) end
  end)

  it('that begins to publish while publishers are held back is told, and goes on later', function()
    broker = Broker.start { args = { '--store', 'none', '--max-memory', '1M' } }
    local c, late, judge = broker:connect(), broker:connect(), broker:connect()
    judge:ok 'DECLARE queue q'
    c:send(('PUB - q quiet 20000\r\n%s\r\n'):format(('x'):rep(20000)):rep(60))
    c:expect '^EVT blocked'
    late:send 'PUB - q 4\r\nlate\r\nPING\r\n'
    late:expect '^EVT blocked'
    judge:ok 'PURGE q'
    late:expect '^EVT unblocked'
    late:expect '^OK %x+ 1$'
    late:expect_line 'OK'
  end)

  it('hears the heart of a broker that holds it back', function()
    broker = Broker.start { args = { '--store', 'none', '--max-memory', '1M' } }
    local c, judge = broker:connect(), broker:connect()
    judge:ok 'DECLARE queue q'
    c:document 'HELLO heartbeat=1s'
    c:send(('PUB - q quiet 20000\r\n%s\r\n'):format(('x'):rep(20000)):rep(60))
    c:expect '^EVT blocked'
    for _ = 1, 3 do c:expect '^EVT heartbeat' end
  end)
end)
