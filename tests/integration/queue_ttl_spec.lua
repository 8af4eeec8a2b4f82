-- DECLARE queue ttl=: how long messages live in a queue, whatever their own ttl is.
local Broker = require 'support.broker'
local traffic = require 'support.traffic'

describe('a queue with a ttl', function()
  local broker, c

  setup(function() broker = Broker.start { args = { '--window-messages', '16', '--fsync', 'no' } } end)
  teardown(function() broker:expect_clean_stop() end)
  before_each(function() c = broker:enter_vhost() end)
  after_each(function() c:close() end)

  local function publish(queue, count, options)
    traffic.publish(c, queue, count, function(i) return tostring(i), options end)
  end

  --- For how long it lives on from its publication.
  local function life(message)
    return message.expires - message.ts
  end

  for _, durable in ipairs { 0, 1 } do
    describe('durable=' .. durable .. ',', function()
      it('drops what nobody takes, in the window and beyond', function()
        c:ok('DECLARE queue q ttl=50ms durable=' .. durable)
        publish('q', 300)
        publish('q', 300, 'ttl=1h')
        traffic.expect_counts(c, 'q', { ready = 0, expired = 600 })
        if durable == 1 then broker:expect_no_messages 'q' end
      end)

      it('takes the shorter of both, and the longer one does not hide what is behind it', function()
        c:ok('DECLARE queue q ttl=1h durable=' .. durable)
        publish('q', 100)
        publish('q', 100, 'ttl=2h')
        publish('q', 100, 'ttl=20ms')
        traffic.expect_counts(c, 'q', { ready = 200, expired = 100 })
        assert.equal(3600000, life(c:peek 'q'[1]))
        assert.equal(200, #(traffic.take(c, 'q', 200)))
      end)

      it('counts from the end of a delay', function()
        c:ok('DECLARE queue q ttl=1h durable=' .. durable)
        publish('q', 2, 'delay=30m')
        publish('q', 1, 'delay=30m ttl=1m')
        local messages = c:peek 'q 3 state=delayed'
        assert.same({ 5400000, 5400000, 1860000 }, { life(messages[1]), life(messages[2]), life(messages[3]) })
      end)

      it('dead-letters into another one, where a new life begins', function()
        c:ok('DECLARE queue third ttl=1h durable=' .. durable)
        c:ok('DECLARE queue second ttl=20ms dead-letter=-/third durable=' .. durable)
        c:ok('DECLARE queue first ttl=20ms dead-letter=-/second durable=' .. durable)
        publish('first', 50)
        traffic.expect_counts(c, 'third', { ready = 50 })
        local m = c:peek 'third'[1]
        assert.is_true(life(m) > 3600000)
        assert.equal('expired', m.headers['x-death-reason'])
        if durable == 1 then broker:expect_no_messages 'first' end
      end)

      it('leaves another queue of the same publish alone', function()
        c:ok 'DECLARE exchange x fanout'
        c:ok('DECLARE queue brief ttl=1ms durable=' .. durable)
        c:ok('DECLARE queue long durable=' .. durable)
        c:ok 'BIND brief x -'
        c:ok 'BIND long x -'
        for i = 1, 50 do c:ok('PUB x k', tostring(i)) end
        traffic.expect_counts(c, 'brief', { ready = 0, expired = 50 })
        assert.is_nil(c:peek 'long'[1].expires)
        assert.equal(50, #(traffic.take(c, 'long', 50)))
      end)

      it('keeps what is held, and what is buried until it is kicked', function()
        c:ok('DECLARE queue q ttl=1s ack-timeout=1h durable=' .. durable)
        publish('q', 3)
        local held = c:get 'q max=2'
        c:ok(('NACK %s dead'):format(held[2].tag))
        traffic.expect_counts(c, 'q', { ready = 0, unacked = 1, buried = 1, expired = 1 })
        c:ok 'KICK q'
        traffic.expect_counts(c, 'q', { buried = 0, unacked = 1, expired = 2 })
        c:ok(('NACK %s'):format(held[1].tag))
        traffic.expect_counts(c, 'q', { ready = 0, unacked = 0, expired = 3 })
        if durable == 1 then broker:expect_no_messages 'q' end
      end)
    end)
  end

  it('remembers after a kill when each message ends, over its shards', function()
    c:ok 'DECLARE queue q ttl=1h shards=3 sharding=round_robin'
    c:ok 'DECLARE queue brief ttl=200ms'
    publish('q', 99)
    publish('brief', 99)
    local before = c:peek 'q 100'
    broker:kill9_all()
    broker:run()
    c = broker:connect()
    traffic.expect_counts(c, 'brief', { ready = 0 })
    broker:expect_no_messages 'brief'
    local ends = {}
    for _, m in ipairs(before) do ends[m.id] = m.expires end
    local after = c:peek 'q 100'
    assert.equal(99, #after)
    for _, m in ipairs(after) do assert.equal(ends[m.id], m.expires) end
  end)

  it('is an option of the queue like others', function()
    c:ok 'DECLARE queue q ttl=1h'
    c:ok 'DECLARE queue q ttl=60m'
    c:ok 'DECLARE queue none ttl=0'
    c:ok 'DECLARE queue none'
    c:expect_answer('DECLARE queue q', "ERR mismatch queue 'q' exists with other options: it has ttl=1h, not ttl=0; " ..
      'the option update changes that')
    c:expect_answer('DECLARE queue q ttl=never',
      'ERR syntax ttl=never: expected a duration from 1ms to 3660d, or 0 for no limit')
    for _, q in ipairs(c:document 'LIST queues') do
      assert.same(q.name == 'q' and { ttl = '1h' } or {}, q.options)
    end
  end)
end)
