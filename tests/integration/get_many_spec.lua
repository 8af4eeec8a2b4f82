-- GET of several queues: a blocking pop over levels of urgency. The queues are served in the order named.
local Broker = require 'support.broker'
local Client = require 'support.client'
local wait = require 'support.wait'

local payloads = Client.payload_text

for _, durable in ipairs { '1', '0' } do
  describe(('a GET of several queues with durable=%s'):format(durable), function()
    local broker, c

    setup(function() broker = Broker.start { args = { '--fsync', 'no' } } end)
    teardown(function() broker:expect_clean_stop() end)
    before_each(function()
      c = broker:enter_vhost()
      for _, name in ipairs { 'high', 'mid', 'low' } do
        c:ok(('DECLARE queue %s durable=%s shards=2 sharding=round_robin'):format(name, durable))
      end
    end)
    after_each(function() c:close() end)

    -- A GET on a connection of its own that waits, once it is in the line of its queues.
    local function waiting(words, queues)
      local other = broker:connect()
      local before = #c:document 'LIST consumers'
      other:send(('GET %s wait=1h\r\n'):format(words))
      assert(wait.poll(function() return #c:document 'LIST consumers' == before + queues end))
      return other
    end

    it('takes from the first that has something, and all of that first', function()
      c:publish('low', 'l1', 'l2')
      c:publish('mid', 'm1', 'm2', 'm3')
      assert.equal('m1', payloads(c:get 'high mid low'))
      assert.equal('m2 m3 l1', payloads(c:get 'high mid low max=3'))
      c:publish('high', 'h1')
      assert.equal('h1 l2', payloads(c:get 'high mid low max=10'))
      assert.same({}, c:get 'high mid low max=10')
    end)

    it('takes in the order named, whichever that is', function()
      c:publish('low', 'l1', 'l2')
      c:publish('high', 'h1', 'h2')
      assert.equal('l1 l2 h1', payloads(c:get 'low high max=3'))
      assert.equal('h2', payloads(c:get 'mid low high wait=1h'))
    end)

    it('gives tags in that order, whichever queue a message is of', function()
      c:publish('low', 'l')
      c:publish('high', 'h')
      local messages = c:get 'high low max=2'
      assert.same({ '1', '2' }, { messages[1].tag, messages[2].tag })
      assert.same({ 'high', 'low' }, { messages[1].key, messages[2].key })
      assert.equal('2', c:ok 'ACK 1-2')
      assert.same({ 1, 1 }, { c:stats('high').acked, c:stats('low').acked })
    end)

    it('waits for all of them', function()
      for _, queue in ipairs { 'low', 'high', 'mid' } do
        local other = waiting('high mid low', 3)
        c:publish(queue, queue)
        other:expect_line 'OK 1'
        assert.equal(queue, other:expect_msg().payload)
        assert.same({}, c:document 'LIST consumers')
        other:ok 'ACK 1'
        other:close()
      end
    end)

    it('is answered with nothing when its time is over', function()
      c:send 'GET high mid low wait=20ms\r\nPING\r\n'
      c:expect_line 'OK 0'
      c:expect_line 'OK'
      assert.same({}, c:document 'LIST consumers')
    end)

    it('takes what became ready in one turn in the order named', function()
      local a, b = waiting('high low max=10', 2), waiting('low high max=10', 2)
      -- One request of each kind, read in one turn: two of each, less urgent first.
      c:send('PUB - low quiet 2\r\nl1\r\nPUB - high quiet 2\r\nh1\r\n')
      local got = {}
      for _, other in ipairs { a, b } do
        local n = tonumber(other:expect '^OK %d$':match '%d')
        for _ = 1, n do got[#got + 1] = other:expect_msg().payload end
        if #got == 2 then break end
      end
      -- The GET that waited longer has both, in the order in which it names them.
      assert.equal('h1 l1', table.concat(got, ' '))
      a:close()
      b:close()
    end)

    it('keeps its place in the line of each queue', function()
      local first, both, last = waiting('high', 1), waiting('high low', 2), waiting('high', 1)
      c:publish('high', '1', '2', '3')
      for i, other in ipairs { first, both, last } do
        other:expect_line 'OK 1'
        assert.equal(tostring(i), other:expect_msg().payload)
        other:close()
      end
    end)

    it('leaves to a subscription what is its', function()
      local other = broker:connect()
      other:ok 'SUB low s prefetch=1'
      local get = waiting('high low', 2)
      c:publish('low', '1', '2')
      assert.equal('1', other:expect_msg().payload)
      get:expect_line 'OK 1'
      assert.equal('2', get:expect_msg().payload)
      other:close()
      get:close()
    end)

    it('of which one is deleted is refused', function()
      local get = waiting('high mid low', 3)
      c:ok 'DELETE queue mid'
      get:expect_line "ERR not-found queue 'mid' was deleted"
      assert.same({}, c:document 'LIST consumers')
      c:publish('high', 'x')
      assert.equal('x', payloads(c:get 'high'))
      get:close()
    end)

    it('takes nothing any more when its channel or connection ends', function()
      local get = waiting('high mid', 2)
      get:close()
      assert(wait.poll(function() return #c:document 'LIST consumers' == 0 end))
      c:send '@3 OPEN\r\n@3 GET high mid wait=1h\r\n@3 CLOSE\r\n'
      c:expect_line '@3 OK'
      c:expect_line '@3 OK 0'
      c:expect_line '@3 OK'
      c:publish('mid', 'x')
      assert.equal('x', payloads(c:get 'high mid'))
    end)

    it('takes what there is when its client ends its side', function()
      local get = waiting('high mid', 2)
      get:shutdown()
      get:expect_line 'OK 0'
      get:expect_closed()
    end)

    it('needs no acks with ack=auto', function()
      c:publish('low', 'l')
      c:publish('high', 'h')
      local messages = c:get 'high low max=2 ack=auto'
      assert.equal('h l', payloads(messages))
      assert.same({ '-', '-' }, { messages[1].tag, messages[2].tag })
      assert.same({ 1, 1 }, { c:stats('high').acked, c:stats('low').acked })
    end)

    it('is refused before anything is taken', function()
      c:publish('high', 'h')
      c:expect_answer('GET high low nobody',
        "ERR not-found there is no queue 'nobody' in vhost '" .. broker.vhost .. "'")
      c:expect_answer('GET high low high', "ERR syntax GET names queue 'high' twice")
      c:expect_answer('GET high  low', 'ERR syntax single spaces separate words')
      c:expect_answer('GET high low ', 'ERR syntax single spaces separate words')
      c:expect_answer('GET high low max=0', 'ERR syntax max=0: expected a number from 1 to 1000')
      c:expect_answer('GET high low quiet', "ERR syntax GET has no flag 'quiet'; it takes: none")
      c:expect_answer('GET high max=1 low', "ERR syntax GET has no flag 'low'; it takes: none")
      local names = {}
      for i = 1, 65 do
        names[i] = 'q' .. i
        c:ok(('DECLARE queue q%d durable=0'):format(i))
      end
      c:expect_answer('GET ' .. table.concat(names, ' '), 'ERR too-long GET names at most 64 queues')
      c:ok('PUB - q64', 'last')
      assert.equal('last', payloads(c:get(table.concat(names, ' ', 1, 64))))
      assert.equal(1, c:stats('high').ready)
      local mine = broker:connect()
      mine:ok 'DECLARE queue mine exclusive'
      c:expect_answer('GET high mine', "ERR denied queue 'mine' belongs to another connection")
      mine:close()
    end)

    it('may name a queue with a = first', function()
      c:ok('DECLARE queue a=b durable=' .. durable)
      c:ok('PUB - a=b', 'x')
      assert.equal('x', payloads(c:get 'a=b low'))
    end)
  end)
end

describe('a GET of several queues', function()
  local broker, c

  before_each(function()
    broker = Broker.start { args = { '--fsync', 'no', '--window-messages', '16' } }
    c = broker:connect()
  end)
  after_each(function()
    c:close()
    broker:expect_clean_stop()
  end)

  it('takes the backlog of the first before the second', function()
    c:ok 'DECLARE queue high'
    c:ok 'DECLARE queue low'
    for i = 1, 200 do c:send(('PUB - low quiet 1\r\nl\r\nPUB - high quiet %d\r\n%d\r\n'):format(#tostring(i), i)) end
    c:ok 'PING'
    assert.is_true(c:stats('high').in_memory < 100)
    local got = {}
    while #got < 200 do
      local messages = c:get(('high low max=7 wait=%s'):format(#got % 2 == 0 and '0' or '10s'))
      assert.is_true(#messages > 0)
      for _, m in ipairs(messages) do
        if m.payload == 'l' then assert.equal(200, #got) else got[#got + 1] = tonumber(m.payload) end
        c:ok('ACK ' .. m.tag)
        if m.payload == 'l' then break end
      end
    end
    for i = 1, 200 do assert.equal(i, got[i]) end
  end)

  it('waits for the read of a more urgent queue, but not for a Redis that is away', function()
    c:ok 'DECLARE queue high'
    c:ok 'DECLARE queue low durable=0'
    for i = 1, 100 do c:ok('PUB - high', tostring(i)) end
    -- What is in memory is held; the rest is in Redis, which does not answer.
    local held = c:get 'high max=1'
    local taken = 1
    local redis = broker:redis_pid()
    assert(os.execute('kill -STOP ' .. redis))
    repeat
      local messages = c:get 'high max=1 wait=1ms'
      taken = taken + #messages
    until #messages == 0
    assert.is_true(taken < 100)
    c:ok('PUB - low', 'l')
    -- It waits for the read, and then no longer.
    assert.equal('l', payloads(c:get 'high low wait=1h'))
    assert(os.execute('kill -CONT ' .. redis))
    assert.equal(tostring(taken + 1), payloads(c:get 'high low wait=1h'))
    c:ok('ACK ' .. held[1].tag)
  end)

  it('delivers again what was taken, after kill -9 of broker and Redis', function()
    c:ok 'DECLARE queue high'
    c:ok 'DECLARE queue low'
    c:ok('PUB - high', 'h')
    c:ok('PUB - low', 'l')
    assert.equal('h l', payloads(c:get 'high low max=2'))
    c:close()
    broker:kill9_all()
    broker:run()
    c = broker:connect()
    local messages = c:get 'high low max=2'
    assert.equal('h l', payloads(messages))
    for _, m in ipairs(messages) do assert.is_true(m.redelivered) end
  end)

  it('takes all that is ready, most of which Redis alone has', function()
    c:ok 'DECLARE queue high'
    c:ok 'DECLARE queue low'
    local expected = {}
    for i = 1, 100 do
      c:ok('PUB - ' .. (i <= 60 and 'high' or 'low'), tostring(i))
      expected[i] = tostring(i)
    end
    assert.equal(table.concat(expected, ' ', 1, 50), payloads(c:get 'high max=50'))
    c:ok 'NACK 1-50 requeue'
    broker:kill9_all()
    broker:run()
    c = broker:connect()
    assert.equal(table.concat(expected, ' '), payloads(c:get 'high low max=1000 wait=1h'))
  end)
end)
