-- SUB notify-lease=: EVT lease tells that a lease is about to run out.
local Broker = require 'support.broker'

for _, durable in ipairs { '1', '0' } do
  describe(('the event of a lease, durable=%s'):format(durable), function()
    local broker, c

    setup(function() broker = Broker.start { args = { '--fsync', 'no' } } end)
    teardown(function() broker:expect_clean_stop() end)
    before_each(function() c = broker:enter_vhost() end)
    after_each(function() c:close() end)

    local function declare(lease)
      c:ok(('DECLARE queue q shards=1 delivery-limit=0 durable=%s ack-timeout=%s'):format(durable, lease))
    end
    --- Publish by another connection, so that this one reads deliveries and events alone.
    local function publish(...)
      local d = broker:connect()
      for _, payload in ipairs { ... } do d:ok('PUB - q', payload) end
      d:close()
    end
    local function expect_event(tag, most)
      local left = math.tointeger(tonumber((c:expect('^EVT lease s ' .. tag .. ' (%d+)$'))))
      assert.is_true(left <= most, left .. ' ms left')
    end

    it('comes once for each lease, before it ends', function()
      declare '500ms'
      c:ok 'SUB q s notify-lease=470ms'
      publish 'a'
      for attempt = 1, 2 do
        assert.equal(attempt, c:expect_msg().attempt)
        expect_event(attempt, 470)
      end
      -- The next line is the third delivery, and no second event of the second.
      assert.equal(3, c:expect_msg().attempt)
    end)

    it('does not come for what is settled', function()
      declare '1h'
      c:ok 'SUB q s notify-lease=59m'
      publish('a', 'b', 'c')
      for _ = 1, 3 do c:expect_msg() end
      c:send 'TOUCH 3 for=58m quiet\r\nACK 1 quiet\r\nNACK 2 delay=1h quiet\r\n'
      expect_event(3, 58 * 60 * 1000)
      c:expect_nothing()
    end)

    it('comes again when the lease is extended', function()
      declare '1h'
      c:ok 'SUB q s notify-lease=30m'
      publish 'a'
      c:expect_msg()
      c:ok 'TOUCH 1 for=20m'
      expect_event(1, 20 * 60 * 1000)
      c:expect_nothing()
      c:ok 'TOUCH 1 for=10m'
      expect_event(1, 10 * 60 * 1000)
      c:ok 'TOUCH 1'
      c:expect_nothing()
      c:ok 'TOUCH 1 for=30m'
      expect_event(1, 30 * 60 * 1000)
    end)

    it('is put off by an extension that comes before it', function()
      declare '1h'
      c:ok 'SUB q s notify-lease=500ms'
      publish('a', 'b')
      for _ = 1, 2 do c:expect_msg() end
      c:send 'TOUCH 2 for=1s quiet\r\nTOUCH 1 for=1s quiet\r\nTOUCH 1 quiet\r\n'
      c:expect_nothing()
      c:send 'ACK 1 quiet\r\n'
      expect_event(2, 500)
      assert.equal('b', c:expect_msg().payload)
    end)

    it('comes behind the message when the lease is shorter than that', function()
      declare '1m'
      c:ok 'SUB q s notify-lease=1h'
      publish 'a'
      assert.equal('1', c:expect_msg().tag)
      expect_event(1, 60000)
      publish 'b'
      assert.equal('2', c:expect_msg().tag)
      c:expect_nothing()
      c:send 'ACK 1 quiet\r\n'
      expect_event(2, 60000)
    end)

    it('comes on the channel, for those who asked alone', function()
      declare '1m'
      c:send '@7 OPEN\r\n@7 SUB q quiet prefetch=1\r\n@7 SUB q loud prefetch=1 notify-lease=1m\r\n'
      for _ = 1, 3 do c:expect_line '@7 OK' end
      publish('a', 'b')
      assert.equal('quiet', c:expect_msg(nil, 7).sid)
      assert.equal('loud', c:expect_msg(nil, 7).sid)
      c:expect '^@7 EVT lease loud 2 %d+$'
      c:expect_nothing()
      local shown = {}
      for _, consumer in ipairs(c:document 'LIST consumers') do shown[consumer.sid] = consumer.notify_lease_ms end
      assert.same({ quiet = 0, loud = 60000 }, shown)
    end)

    it('comes for what is held after UNSUB too', function()
      declare '1h'
      c:ok 'SUB q s notify-lease=1m'
      publish 'a'
      c:expect_msg()
      c:ok 'UNSUB s'
      c:ok 'SUB q s'
      c:send 'TOUCH 1 for=30s\r\n'
      c:expect_line 'OK 1'
      expect_event(1, 30000)
      c:ok 'ACK 1'
    end)

    it('comes for each of many, when it is the oldest', function()
      declare '30s'
      c:ok 'SUB q s prefetch=5000 notify-lease=1m'
      local d = broker:connect()
      for _ = 1, 5000 do d:send 'PUB - q quiet 1\r\nx\r\n' end
      d:close()
      local messages, told = 0, 0
      while told < 5000 do
        local line = c:read_line()
        local tag = line:match '^EVT lease s (%d+) %d+$'
        if tag then
          told = told + 1
          assert.equal(tostring(told), tag)
          c:send(('ACK %s quiet\r\n'):format(tag))
        else
          c:delivery(line)
          messages = messages + 1
        end
      end
      assert.equal(5000, messages)
      c:expect_nothing()
    end)

    it('is off when the connection or the queue has gone', function()
      declare '10s'
      local d = broker:connect()
      d:ok 'SUB q s notify-lease=9950ms'
      publish 'a'
      d:expect_msg()
      d:close()
      c:ok 'SUB q s notify-lease=9950ms'
      c:expect_msg()
      expect_event(1, 9950)
      c:send 'DELETE queue q\r\n'
      c:expect_line 'EVT cancelled s queue-deleted'
      c:expect_line 'OK'
      c:expect_nothing()
    end)

    it('is refused without a lease', function()
      declare '1m'
      c:expect_answer('SUB q s notify-lease=1s ack=auto',
        'ERR syntax notify-lease= needs ack=manual: with ack=auto there is no lease')
      c:expect_answer('SUB q s notify-lease=9ms',
        'ERR syntax notify-lease=9ms: expected a duration like 250ms, 30s, 5m, 2h or 1d, from 10ms to 1d')
      c:ok 'SUB q s'
    end)
  end)
end
