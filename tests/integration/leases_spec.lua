-- For how long a message is given out: the queue's ack-timeout, that of a GET or a SUB, or that of the message itself.
local Broker = require 'support.broker'
local wait = require 'support.wait'

for _, durable in ipairs { '1', '0' } do
  describe(('a lease in a queue with durable=%s'):format(durable), function()
    local broker, c

    setup(function() broker = Broker.start { args = { '--fsync', 'no' } } end)
    teardown(function() broker:expect_clean_stop() end)
    before_each(function() c = broker:enter_vhost() end)
    after_each(function() c:close() end)

    local function declare(name, options)
      c:ok(('DECLARE queue %s durable=%s %s'):format(name, durable, options or 'shards=1'))
    end

    -- After `f` one message is held, for `ms` from a moment that lies within the time that this takes.
    local function expect_lease(ms, queue, f)
      f()
      local held = c:peek(queue .. ' 100 state=unacked')
      assert.equal(1, #held)
      local taken = held[1].holder['until'] - ms - held[1].ts -- from its publication
      assert.is_true(taken >= 0 and taken <= c:document('STATS').uptime_ms, ('taken after %d ms'):format(taken))
    end

    it('is as long as the GET says, then the queue', function()
      declare('q', 'ack-timeout=1h')
      c:ok('PUB - q', 'x')
      expect_lease(3600000, 'q', function() c:get 'q' end)
      c:ok 'NACK 1'
      expect_lease(7200000, 'q', function() c:get 'q ack-timeout=2h' end)
      c:ok 'NACK 2'
      -- Of this one delivery alone.
      expect_lease(3600000, 'q', function() c:get 'q' end)
    end)

    it('is as long as the SUB says, for all that it takes', function()
      declare('q', 'ack-timeout=1h')
      c:ok 'SUB q s ack-timeout=3h'
      expect_lease(10800000, 'q', function()
        c:send 'PUB - q quiet 1\r\nx\r\n'
        c:expect_msg()
      end)
      local consumer = c:document('LIST consumers')[1]
      assert.equal(10800000, consumer.ack_timeout)
      c:ok 'ACK 1'
      c:ok 'UNSUB s'
      c:ok 'SUB q s'
      assert.is_nil(c:document('LIST consumers')[1].ack_timeout)
    end)

    it('is as long as the PUB says, whatever consumer and queue say', function()
      declare('q', 'ack-timeout=1h')
      c:ok('PUB - q ack-timeout=4h', 'x')
      for tag, words in ipairs { 'q', 'q ack-timeout=2h', 'q ack-timeout=20h' } do
        expect_lease(14400000, 'q', function() c:get(words) end)
        c:ok('NACK ' .. tag)
      end
      assert.equal(14400000, c:document('EXPLAIN - q ack-timeout=4h').ack_timeout)
      assert.is_nil(c:document('EXPLAIN - q').ack_timeout)
    end)

    it('is no longer than the queue allows, whoever asks', function()
      declare('q', 'ack-timeout=1m ack-timeout-max=5m')
      c:ok('PUB - q ack-timeout=10m', 'x')
      expect_lease(300000, 'q', function() c:get 'q' end)
      c:ok 'ACK 1'
      c:ok('PUB - q', 'x')
      expect_lease(300000, 'q', function() c:get 'q ack-timeout=10m' end)
      expect_lease(300000, 'q', function() c:ok 'TOUCH 2 for=10m' end)
      assert.same({ ['ack-timeout-max'] = '5m', durable = durable == '0' and '0' or nil },
        (function()
          for _, q in ipairs(c:document 'LIST queues') do
            if q.name == 'q' then
              q.options['ack-timeout'] = nil
              return q.options
            end
          end
        end)())
    end)

    it('starts again with TOUCH, as long as it was', function()
      declare('q', 'ack-timeout=1h')
      c:ok('PUB - q', 'x')
      c:get 'q ack-timeout=2h'
      expect_lease(7200000, 'q', function() c:ok 'TOUCH 1' end)
      expect_lease(60000, 'q', function() c:ok 'TOUCH 1 for=1m' end)
      expect_lease(7200000, 'q', function() c:ok 'TOUCH 1' end)
    end)

    it('ends when it is over', function()
      declare('q', 'ack-timeout=1h')
      c:ok('PUB - q', 'x')
      c:get 'q ack-timeout=10ms'
      assert.equal(2, c:get('q wait=10s')[1].attempt)
      assert.equal(1, c:stats('q').timed_out)
      c:ok 'ACK 2'
      c:ok('PUB - q ack-timeout=10ms', 'y')
      c:send 'SUB q s\r\n'
      c:expect_line 'OK'
      assert.equal(1, c:expect_msg().attempt)
      assert.equal(2, c:expect_msg().attempt)
    end)

    it('goes with the message through exchanges and dead letters', function()
      declare 'dead'
      declare('q', 'dead-letter=-/dead')
      c:ok(('DECLARE exchange x fanout durable=%s'):format(durable))
      c:ok 'BIND q x -'
      c:ok('PUB x k ack-timeout=6h', 'x')
      expect_lease(21600000, 'q', function() c:get 'q' end)
      c:ok 'NACK 1 dead'
      local m = c:get('dead wait=10s')
      assert.equal(1, #m)
      local held = c:peek('dead state=unacked')[1]
      assert.is_true(held.holder['until'] - held.ts >= 21600000)
    end)

    it('is refused when it is out of range', function()
      declare 'q'
      local range = ': expected a duration like 250ms, 30s, 5m, 2h or 1d, from 10ms to 1d'
      for _, value in ipairs { '9ms', '0', '25h', 'soon' } do
        local text = ('ERR syntax ack-timeout=%s%s'):format(value, range)
        c:expect_answer('GET q ack-timeout=' .. value, text)
        c:expect_answer('SUB q s ack-timeout=' .. value, text)
        c:send(('PUB - q ack-timeout=%s 1\r\nx\r\n'):format(value))
        c:expect_line(text)
      end
      c:expect_answer('DECLARE queue other ack-timeout=2m ack-timeout-max=1m',
        'ERR syntax ack-timeout=2m is longer than ack-timeout-max=1m')
      assert.equal(0, c:stats('q').published)
    end)
  end)
end

describe('a lease', function()
  local broker, c

  before_each(function()
    broker = Broker.start { args = { '--window-messages', '16' } }
    c = broker:connect()
  end)
  after_each(function()
    c:close()
    broker:expect_clean_stop()
  end)

  it('of a message survives kill -9 of broker and Redis, and the backlog', function()
    c:ok 'DECLARE queue q ack-timeout=1h'
    for i = 1, 60 do
      c:ok(('PUB - q %s'):format(i % 2 == 0 and 'ack-timeout=2h h:a=b' or 'h:a=b'), tostring(i))
    end
    c:close()
    broker:kill9_all()
    broker:run()
    c = broker:connect()
    local seen = {}
    while #seen < 60 do
      for _, m in ipairs(c:get 'q max=10 wait=10s') do seen[#seen + 1] = m end
    end
    local held = {}
    local shown = c:peek 'q 100 state=unacked'
    for _, m in ipairs(shown) do held[tonumber(m.payload)] = m end
    for i = 1, 60 do
      assert.equal(tostring(i), seen[i].payload)
      assert.equal('b', seen[i].headers.a)
      assert.equal(i % 2 == 0 and 7200000 or 3600000, held[i].holder.lease_ms)
    end
  end)

  it('of a consumer ends while Redis is away', function()
    c:ok 'DECLARE queue q ack-timeout=1h'
    c:ok('PUB - q', 'x')
    c:get 'q ack-timeout=2s'
    broker:kill9_redis()
    assert.equal(2, c:get('q wait=20s')[1].attempt)
  end)

  it('is an option of the command line', function()
    c:ok 'DECLARE queue q ack-timeout=1h'
    broker:cli('pub', '--ack-timeout', '2h', '-', 'q', 'x')
    c:get 'q'
    local m = c:peek('q state=unacked')[1]
    assert.is_true(m.holder['until'] - m.ts >= 7200000)
    c:ok 'ACK 1'
    c:ok 'DECLARE queue urgent'
    broker:cli('pub', '-', 'q', 'second')
    broker:cli('pub', '-', 'urgent', 'first')
    assert.equal('urgent first\nq second\n', broker:cli('get', '--max', '5', '--ack-timeout', '5s', 'urgent', 'q'))
    assert(wait.poll(function() return c:stats('q').unacked == 0 end))
  end)
end)
