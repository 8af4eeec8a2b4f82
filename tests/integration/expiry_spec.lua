-- Messages whose time to live is over leave their queue, though nobody asks for them.
local Broker = require 'support.broker'
local traffic = require 'support.traffic'

describe('a message whose ttl is over, of which nobody asks,', function()
  local broker, c

  setup(function() broker = Broker.start { args = { '--window-messages', '16', '--fsync', 'no' } } end)
  teardown(function() broker:expect_clean_stop() end)
  before_each(function() c = broker:enter_vhost() end)
  after_each(function() c:close() end)

  local function publish(queue, count, options)
    traffic.publish(c, queue, count, function(i) return tostring(i), options end)
  end

  for _, durable in ipairs { 0, 1 } do
    describe('durable=' .. durable .. ',', function()
      it('is dropped and counted, in the window and beyond', function()
        c:ok('DECLARE queue q durable=' .. durable)
        publish('q', 300, 'ttl=50ms')
        c:ok('PUB - q', 'stays')
        c:ok('PUB - q ttl=1h', 'stays for long')
        traffic.expect_counts(c, 'q', { ready = 2, expired = 300 })
        assert.is_true(c:stats('q').in_memory <= 2)
        assert.same({ 'stays', 'stays for long' }, (traffic.take(c, 'q', 2)))
        if durable == 1 then broker:expect_no_messages 'q' end
      end)

      it('is dead-lettered', function()
        c:ok 'DECLARE queue dead'
        c:ok('DECLARE queue q dead-letter=-/dead durable=' .. durable)
        publish('q', 100, 'ttl=1ms')
        traffic.expect_counts(c, 'q', { ready = 0, unacked = 0, expired = 100, dead_lettered = 100 })
        local _, deliveries = traffic.take(c, 'dead', 100)
        for _, m in ipairs(deliveries) do assert.equal('expired', m.headers['x-death-reason']) end
        if durable == 1 then broker:expect_no_messages 'q' end
      end)

      it('expires while it is delayed again, and not while it is held or buried', function()
        c:ok('DECLARE queue q ack-timeout=1h durable=' .. durable)
        publish('q', 3, 'ttl=2s')
        local held = c:get 'q max=3'
        c:ok(('NACK %s delay=1h'):format(held[1].tag))
        c:ok(('NACK %s dead'):format(held[2].tag))
        traffic.expect_counts(c, 'q', { delayed = 0, expired = 1, buried = 1, unacked = 1 })
        c:ok 'KICK q'
        traffic.expect_counts(c, 'q', { expired = 2, buried = 0 })
        c:ok(('NACK %s'):format(held[3].tag))
        traffic.expect_counts(c, 'q', { expired = 3, ready = 0, unacked = 0 })
        if durable == 1 then broker:expect_no_messages 'q' end
      end)
    end)
  end

  it('expires after a restart, also behind others that wait', function()
    c:ok 'DECLARE queue q'
    publish('q', 100)
    publish('q', 100, 'ttl=1ms')
    publish('q', 100, 'delay=1h')
    publish('q', 50, 'delay=1ms ttl=1ms')
    broker:kill9_all()
    broker:run()
    c = broker:connect()
    traffic.expect_counts(c, 'q', { ready = 100, delayed = 100 })
    assert.equal('200', broker:redis_cli('HLEN', broker:key('q', 'msg')))
    local payloads = traffic.take(c, 'q', 100)
    for i = 1, 100 do assert.equal(tostring(i), payloads[i]) end
  end)

  it('expires while others are published and taken', function()
    c:ok 'DECLARE queue q'
    local seen, count = {}, 0
    for round = 1, 20 do
      publish('q', 50, 'ttl=10ms')
      traffic.publish(c, 'q', 50, function(i) return ('stays %d.%d'):format(round, i) end)
      for _, payload in ipairs((traffic.take(c, 'q', 40))) do
        if payload:find '^stays' then
          assert.is_nil(seen[payload])
          seen[payload], count = true, count + 1
        end
      end
    end
    traffic.expect_counts(c, 'q', { ready = 1000 - count, unacked = 0 })
    for _, payload in ipairs((traffic.take(c, 'q', 1000 - count))) do
      assert.is_nil(seen[payload])
      assert.matches('^stays', payload)
      seen[payload] = true
    end
    broker:expect_no_messages 'q'
  end)
end)
