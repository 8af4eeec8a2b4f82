-- DECLARE queue rate=: deliveries at a rate.
local Broker = require 'support.broker'
local socket = require 'socket'
local traffic = require 'support.traffic'

describe('a queue with a rate', function()
  local broker, c

  setup(function() broker = Broker.start { args = { '--window-messages', '16', '--fsync', 'no' } } end)
  teardown(function() broker:expect_clean_stop() end)
  before_each(function() c = broker:enter_vhost() end)
  after_each(function() c:close() end)

  --- The n-th message may come no earlier than this after the start: 20 ms may be made up for.
  local function expect_smooth(start, times, interval)
    for i = 2, #times do
      local earliest = (i - 1) * interval - 0.02 - 0.002
      assert.is_true(times[i] - start >= earliest, ('message %d after %.3f s'):format(i, times[i] - start))
    end
  end

  local function receive(count)
    local times, payloads = {}, {}
    for i = 1, count do
      payloads[i] = c:expect_msg().payload
      times[i] = socket.gettime()
    end
    return times, payloads
  end

  for _, durable in ipairs { 0, 1 } do
    describe('durable=' .. durable .. ',', function()
      it('delivers to a subscription at that rate, what is in memory and what is not', function()
        c:ok('DECLARE queue q rate=100/s durable=' .. durable)
        traffic.publish(c, 'q', 60)
        local start = socket.gettime()
        c:ok 'SUB q s ack=auto prefetch=1000'
        local times, payloads = receive(60)
        expect_smooth(start, times, 0.01)
        for i = 1, 60 do assert.equal(tostring(i), payloads[i]) end
      end)

      it('delivers to all its consumers together at that rate', function()
        c:ok('DECLARE queue q rate=50/s shards=3 sharding=round_robin durable=' .. durable)
        for i = 1, 3 do c:ok(('SUB q s%d'):format(i)) end
        local start = socket.gettime()
        for i = 1, 20 do c:send(('PUB - q quiet %d\r\n%d\r\n'):format(#tostring(i), i)) end
        local times = receive(20)
        expect_smooth(start, times, 0.02)
      end)

      it('gives GETs what is due, and lets others wait for it', function()
        c:ok('DECLARE queue q rate=1/h durable=' .. durable)
        traffic.publish(c, 'q', 3)
        assert.equal('1', c:get('q max=10')[1].payload)
        c:expect_answer('GET q', 'OK 0')
        c:expect_answer('GET q wait=10ms', 'OK 0')
        assert.equal(2, c:stats('q').ready)
        c:ok('DECLARE queue w rate=600/m durable=' .. durable)
        traffic.publish(c, 'w', 3)
        local before = socket.gettime()
        for i = 1, 3 do assert.equal(tostring(i), c:get('w wait=10s')[1].payload) end
        assert.is_true(socket.gettime() - before >= 0.2 - 0.022)
      end)
    end)
  end

  it('counts a delivery again when the message comes back', function()
    c:ok 'DECLARE queue q rate=1/h'
    c:ok('PUB - q', 'x')
    c:ok(('NACK %s requeue'):format(c:get('q')[1].tag))
    c:expect_answer('GET q', 'OK 0')
  end)

  it('leaves other queues at full speed', function()
    c:ok 'DECLARE queue slow rate=1/h'
    c:ok 'DECLARE queue fast'
    traffic.publish(c, 'slow', 100)
    traffic.publish(c, 'fast', 100)
    c:ok 'SUB slow s'
    assert.equal('s', c:expect_msg().sid)
    assert.equal(100, #(traffic.take(c, 'fast', 100)))
    assert.equal(99, c:stats('slow').ready)
  end)

  it('has it after a restart', function()
    c:ok 'DECLARE queue q rate=1/h'
    traffic.publish(c, 'q', 3)
    broker:kill9_all()
    broker:run()
    c = broker:connect()
    assert.equal(1, #c:get 'q max=10')
    assert.equal(2, c:stats('q').ready)
  end)

  it('is an option of the queue like others', function()
    c:ok 'DECLARE queue q rate=1/s'
    c:ok 'DECLARE queue q rate=60/m'
    c:ok 'DECLARE queue q rate=3600/h'
    c:expect_answer('DECLARE queue q rate=2/s',
      "ERR mismatch queue 'q' exists with other options: it has rate=1/s, not rate=2/s; " ..
      'the option update changes that')
    for _, wrong in ipairs { '5', '1/d', '0/s', '-1/s', '1000001/s', '/s', '1.5/s', 'x' } do
      c:expect_answer('DECLARE queue new rate=' .. wrong, ('ERR syntax rate=%s: expected <n>/s, <n>/m or <n>/h, '
        .. 'with a number from 1 to 1000000, or 0 for no limit'):format(wrong))
    end
    for _, q in ipairs(c:document 'LIST queues') do assert.same({ rate = '1/s' }, q.options) end
  end)
end)
