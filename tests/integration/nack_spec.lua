-- What a consumer says of a message that it gives back: another priority, or that it is to be set aside.
local Broker = require 'support.broker'
local Client = require 'support.client'
local wait = require 'support.wait'

for _, durable in ipairs { '1', '0' } do
  describe(('a message that is given back to a queue with durable=%s'):format(durable), function()
    local broker, c

    setup(function() broker = Broker.start { args = { '--fsync', 'no' } } end)
    teardown(function() broker:expect_clean_stop() end)
    before_each(function() c = broker:enter_vhost() end)
    after_each(function() c:close() end)

    local function declare(name, options)
      c:ok(('DECLARE queue %s durable=%s %s'):format(name, durable, options or 'shards=1'))
    end
    local payloads = Client.payload_text

    it('with pri= is ranked anew, and says so', function()
      declare('q', 'priority=strict')
      c:publish('q', 'a', 'b', 'c')
      c:get 'q max=3'
      c:ok 'NACK 3 pri=9 requeue'
      c:ok 'NACK 1-2 requeue'
      local ready = c:peek 'q 3'
      assert.same({ 'c', 9, -9 }, { ready[1].payload, ready[1].priority, ready[1].rank })
      local messages = c:get 'q max=3'
      assert.equal('c a b', payloads(messages))
      assert.same({ '9', nil }, { messages[1].options.pri, messages[2].options.pri })
      assert.equal(1, messages[1].attempt)
      -- And down again.
      c:ok(('NACK %s pri=0 requeue'):format(messages[1].tag))
      c:ok(('NACK %s-%s requeue'):format(messages[2].tag, messages[3].tag))
      assert.equal('a b c', payloads(c:get 'q max=3'))
    end)

    it('keeps its headers, its payload and its lease', function()
      declare('q', 'priority=strict')
      c:ok('PUB - q pri=3 h:a=%00b h:c=d ack-timeout=2h ttl=3h', 'x\0y')
      local first = c:get('q')[1]
      c:ok 'NACK 1 pri=200'
      local m = c:get('q')[1]
      assert.same({ '200', '\0b', 'd', 'x\0y', first.options.id, first.options.ts },
        { m.options.pri, m.headers.a, m.headers.c, m.payload, m.options.id, m.options.ts })
      local held = c:peek('q state=unacked')[1]
      assert.is_true(held.holder['until'] - held.ts >= 7200000 and held.expires - held.ts == 10800000)
      c:ok 'ACK 2'
      assert.same({ 0, 0 }, { c:stats('q').ready, c:stats('q').unacked })
    end)

    it('with pri= and delay= waits, then comes by its new rank', function()
      declare('q', 'priority=strict')
      c:publish('q', 'a', 'b')
      c:get 'q'
      c:ok 'NACK 1 delay=1s pri=5'
      assert.equal(5, c:peek('q state=delayed')[1].priority)
      assert(wait.poll(function() return c:stats('q').delayed == 0 end))
      assert.equal('a b', payloads(c:get 'q max=2'))
    end)

    it('with pri= alone goes where the retry script says', function()
      declare('q', 'priority=strict retry=fixed retry.delay=1h')
      c:publish('q', 'a')
      c:get 'q'
      c:ok 'NACK 1 pri=7'
      local m = c:peek('q state=delayed')[1]
      assert.same({ 7, -7, 1, 'nack' }, { m.priority, m.rank, m.failures, m.reason })
    end)

    it('with pri= has it in each queue apart', function()
      declare('q', 'priority=strict')
      declare('other', 'priority=strict')
      c:ok(('DECLARE exchange x fanout durable=%s'):format(durable))
      c:ok 'BIND q x -'
      c:ok 'BIND other x -'
      c:ok('PUB x k pri=1', 'a')
      c:get 'q'
      c:ok 'NACK 1 pri=8 requeue'
      assert.same({ 8, 1 }, { c:peek('q')[1].priority, c:peek('other')[1].priority })
    end)

    it('with bury is set aside, until it is kicked', function()
      declare 'dead'
      declare('q', 'priority=strict dead-letter=-/dead')
      c:publish('q', 'a', 'b')
      c:get 'q max=2'
      c:ok 'NACK 1 bury pri=4'
      c:ok 'NACK 2 bury'
      local buried = c:peek 'q 10 state=buried'
      assert.equal(2, #buried)
      for _, m in ipairs(buried) do assert.same({ 'nack', 1, 1 }, { m.reason, m.failures, m.deliveries }) end
      local s = c:stats 'q'
      assert.same({ 2, 2, 0, 0 }, { s.buried, s.nacked, s.dead_lettered, c:stats('dead').published })
      assert.equal('2', c:ok 'KICK q')
      local messages = c:get 'q max=2'
      assert.same({ 'a', '4', 1 }, { messages[1].payload, messages[1].options.pri, messages[1].attempt })
      assert.equal('b', messages[2].payload)
    end)

    it('with dead takes its new priority along', function()
      declare('dead', 'priority=strict')
      declare('q', 'dead-letter=-/dead')
      c:publish('q', 'a')
      c:get 'q'
      c:ok 'NACK 1 dead pri=6'
      assert.equal('6', c:get('dead wait=10s')[1].options.pri)
    end)

    it('is buried whatever the delivery limit says', function()
      declare 'dead'
      declare('q', 'delivery-limit=1 dead-letter=-/dead')
      c:publish('q', 'a')
      c:get 'q'
      c:ok 'NACK 1 bury'
      assert.same({ 1, 0 }, { c:stats('q').buried, c:stats('dead').published })
    end)

    it('is refused with options that contradict each other', function()
      declare 'q'
      c:publish('q', 'a')
      c:get 'q'
      for _, words in ipairs { 'bury dead', 'bury requeue', 'bury delay=1s', 'dead requeue pri=1' } do
        c:expect_answer('NACK 1 ' .. words,
          'ERR syntax NACK takes only one of delay=, bury, dead and requeue; pri= and reason= may stand beside it')
      end
      c:expect_answer('NACK 1 pri=256', 'ERR syntax pri=256: expected a number from 0 to 255')
      c:expect_answer('NACK 1 pri=high', 'ERR syntax pri=high: expected a number from 0 to 255')
      c:expect_answer('NACK 1 now', "ERR syntax NACK has no flag 'now'; it takes: bury dead requeue quiet")
      assert.equal(1, c:stats('q').unacked)
    end)

    it('is one of many', function()
      declare('q', 'priority=strict')
      for i = 1, 300 do c:send(('PUB - q quiet %d\r\n%d\r\n'):format(#tostring(i), i)) end
      assert.equal(300, #c:get 'q max=300')
      assert.equal('150', c:ok 'NACK 1-150 pri=1')
      assert.equal('150', c:ok 'NACK 151-300 pri=2')
      local messages = c:get 'q max=300'
      assert.equal(300, #messages)
      for i, m in ipairs(messages) do assert.equal(i <= 150 and '2' or '1', m.options.pri) end
    end)
  end)
end

describe('the priority of a message that was given back', function()
  local broker, c

  before_each(function()
    broker = Broker.start { args = { '--window-messages', '16' } }
    c = broker:connect()
  end)
  after_each(function()
    c:close()
    broker:expect_clean_stop()
  end)

  local function restart()
    -- The confirm of a publish to the same shard comes after what was changed before.
    c:ok('PUB - q pri=0', 'last')
    c:close()
    broker:kill9_all()
    broker:run()
    c = broker:connect()
  end

  it('survives kill -9 of broker and Redis, in each state', function()
    c:ok 'DECLARE queue q priority=strict'
    for _, payload in ipairs { 'ready', 'delayed', 'buried', 'plain' } do c:ok('PUB - q pri=1', payload) end
    c:get 'q max=4'
    c:ok 'NACK 1 pri=10 requeue'
    c:ok 'NACK 2 pri=20 delay=1h'
    c:ok 'NACK 3 pri=30 bury'
    c:ok 'NACK 4 requeue'
    restart()
    assert.same({ 20, -20 }, { c:peek('q state=delayed')[1].priority,
      c:peek('q state=delayed')[1].rank })
    assert.equal(30, c:peek('q state=buried')[1].priority)
    assert.equal('1', c:ok 'KICK q')
    local seen = {}
    while #seen < 4 do
      for _, m in ipairs(c:get 'q max=4 wait=10s') do seen[#seen + 1] = m.payload .. ' ' .. (m.options.pri or '0') end
    end
    assert.same({ 'buried 30', 'ready 10', 'plain 1', 'last 0' }, seen)
  end)

  it('holds in the backlog', function()
    c:ok 'DECLARE queue q priority=strict delivery-limit=0'
    for i = 1, 200 do c:ok('PUB - q pri=100', tostring(i)) end
    -- The first ones go behind all, in the reverse order, into Redis alone.
    local taken = 0
    while taken < 50 do
      for _, m in ipairs(c:get 'q max=10 wait=10s') do
        taken = taken + 1
        c:ok(('NACK %s pri=%d requeue'):format(m.tag, taken))
      end
    end
    assert.equal(200, c:stats('q').ready)
    restart()
    local seen = {}
    while #seen < 201 do
      for _, m in ipairs(c:get 'q max=10 wait=10s') do
        seen[#seen + 1] = m.payload
        c:ok('ACK ' .. m.tag)
      end
    end
    for i = 1, 200 - taken do assert.equal(tostring(taken + i), seen[i]) end
    for i = 1, taken do assert.equal(tostring(taken + 1 - i), seen[200 - taken + i]) end
    assert.equal('last', seen[201])
  end)

  it('is written when Redis takes it again', function()
    c:close()
    broker:expect_clean_stop()
    broker = Broker.start { redis = {} }
    c = broker:connect()
    c:ok 'DECLARE queue q priority=strict'
    c:ok('PUB - q', 'a')
    c:get 'q'
    broker.redis:cli('config', 'set', 'maxmemory', '1')
    c:ok 'NACK 1 pri=5 delay=1h'
    assert(wait.poll(function() return c:document('STATS').store.last_error ~= '' end))
    broker.redis:cli('config', 'set', 'maxmemory', '0')
    assert(wait.poll(function() return c:document('STATS').store.last_error == '' end))
    c:ok('PUB - q', 'b')
    c:close()
    broker:kill9()
    broker:run()
    c = broker:connect()
    local m = c:peek('q state=delayed')[1]
    assert.same({ 'a', 5 }, { m.payload, m.priority })
  end)
end)
