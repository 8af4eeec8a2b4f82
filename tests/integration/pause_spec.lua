-- PAUSE and RESUME: a queue that takes no publishes, gives no deliveries, or neither.
local Broker = require 'support.broker'
local traffic = require 'support.traffic'
local wait = require 'support.wait'

describe('a paused queue', function()
  local broker, c

  setup(function() broker = Broker.start { args = { '--window-messages', '16', '--fsync', 'no' } } end)
  teardown(function() broker:expect_clean_stop() end)
  before_each(function() c = broker:enter_vhost() end)
  after_each(function() c:close() end)

  local refusal = "^ERR busy queue 'q' is paused: it takes no messages until RESUME$"

  local function state(queue)
    for _, q in ipairs(c:document 'LIST queues') do
      if q.name == queue then return q.paused, q.paused_in_until, q.paused_out_until end
    end
  end

  local function restart()
    broker:kill9_all()
    broker:run()
    c = broker:connect()
  end

  for _, durable in ipairs { 0, 1 } do
    describe('durable=' .. durable .. ',', function()
      before_each(function() c:ok('DECLARE queue q durable=' .. durable) end)

      it('in, refuses publishes and goes on to deliver', function()
        c:ok('PUB - q', 'before')
        c:ok 'PAUSE q in'
        assert.equal('in', state 'q')
        assert.matches(refusal, c:request('PUB - q', 'refused'))
        c:send 'PUB - q quiet 1\r\nx\r\n'
        c:expect(refusal)
        assert.equal(2, c:stats('q').refused)
        assert.same({ 'before' }, (traffic.take(c, 'q', 1)))
        c:ok 'RESUME q'
        assert.equal('no', state 'q')
        c:ok('PUB - q', 'after')
        assert.same({ 'after' }, (traffic.take(c, 'q', 1)))
      end)

      it('out, keeps what is published, from subscriptions and GETs', function()
        c:ok 'SUB q s'
        c:ok 'PAUSE q out'
        c:ok('PUB - q', 'kept')
        c:expect_answer('GET q', 'OK 0')
        assert.same({ 'out', 1 }, { c:stats('q').paused, c:stats('q').ready })
        c:ok 'RESUME q in'
        assert.equal('out', state 'q')
        c:send 'RESUME q quiet\r\n'
        assert.equal('kept', c:expect_msg().payload)
      end)

      it('both, gives up one direction after the other', function()
        c:ok 'PAUSE q both'
        assert.equal('both', state 'q')
        c:ok 'RESUME q in'
        c:ok('PUB - q', 'x')
        c:expect_answer('GET q', 'OK 0')
        c:ok 'RESUME q out'
        assert.equal('x', c:get('q')[1].payload)
      end)

      it('resumes by itself when its time is over', function()
        c:ok 'PAUSE q both for=900ms'
        local paused, in_until, out_until = state 'q'
        assert.equal('both', paused)
        assert.equal(in_until, out_until)
        assert.matches('^ERR busy .* for another 1 s$', c:request('PUB - q', 'early'))
        assert(wait.poll(function() return c:request('PUB - q', 'late'):find '^OK' end))
        assert.equal('late', c:get('q wait=10s')[1].payload)
        assert.equal('no', state 'q')
      end)

      it('wakes a subscription and a waiting GET when its time is over', function()
        c:ok('PUB - q', 'a')
        c:ok('PUB - q', 'b')
        c:ok 'PAUSE q out for=50ms'
        assert.equal('a', c:get('q wait=10s')[1].payload)
        c:ok 'PAUSE q out for=50ms'
        c:ok 'SUB q s'
        assert.equal('b', c:expect_msg().payload)
      end)

      it('is paused anew by another PAUSE', function()
        c:ok 'PAUSE q in for=1h'
        c:ok 'PAUSE q in'
        local paused, in_until = state 'q'
        assert.equal('in', paused)
        assert.is_nil(in_until)
      end)
    end)
  end

  it('refuses a message for several queues before any has it', function()
    c:ok 'DECLARE exchange x fanout'
    for _, name in ipairs { 'p', 'q', 'r' } do
      c:ok('DECLARE queue ' .. name)
      c:ok(('BIND %s x -'):format(name))
    end
    c:ok 'PAUSE q in'
    assert.matches(refusal, c:request('PUB x k', 'all or nothing'))
    for _, name in ipairs { 'p', 'q', 'r' } do assert.equal(0, c:stats(name).ready) end
    assert.matches("'q' is paused", c:document('EXPLAIN x k').queues[2].refused)
  end)

  it('takes the repetition of a publish that it has', function()
    c:ok 'DECLARE queue q'
    local first = c:ok('PUB - q id=1', 'x')
    c:ok 'PAUSE q in'
    assert.equal(first .. ' duplicate', c:ok('PUB - q id=1', 'x'))
    assert.matches(refusal, c:request('PUB - q id=2', 'x'))
  end)

  it('keeps a dead letter for it where it died', function()
    c:ok 'DECLARE queue q'
    c:ok 'DECLARE queue source dead-letter=-/q'
    c:ok 'PAUSE q in'
    c:ok('PUB - source', 'x')
    c:ok(('NACK %s dead'):format(c:get('source')[1].tag))
    traffic.expect_counts(c, 'source', { buried = 1, ready = 0, unacked = 0 })
  end)

  it('has its messages expire all the same', function()
    c:ok 'DECLARE queue q'
    traffic.publish(c, 'q', 100, function(i) return tostring(i), 'ttl=1ms' end)
    c:ok 'PAUSE q both'
    traffic.expect_counts(c, 'q', { ready = 0, expired = 100 })
  end)

  it('is paused after a kill, until its end', function()
    c:ok 'DECLARE queue q'
    c:ok 'DECLARE queue brief'
    c:ok 'DECLARE queue resumed'
    traffic.publish(c, 'q', 100)
    c:ok 'PAUSE q both'
    c:ok 'RESUME q in'
    c:ok 'PAUSE brief in for=1ms'
    c:ok 'PAUSE resumed both'
    c:ok 'RESUME resumed'
    restart()
    assert.equal('out', state 'q')
    assert.equal('no', state 'brief')
    assert.equal('no', state 'resumed')
    c:expect_answer('GET q', 'OK 0')
    c:ok 'PAUSE q out for=1h'
    local _, _, before = state 'q'
    restart()
    local _, _, after = state 'q'
    assert.equal(before, after)
    c:ok 'RESUME q'
    assert.equal(100, #(traffic.take(c, 'q', 100)))
    assert.equal('0', broker:redis_cli('HLEN', ('{tide}:%s:pauses'):format(broker.vhost)))
  end)

  it('leaves nothing in Redis when it is deleted', function()
    c:ok 'DECLARE queue q'
    c:ok 'PAUSE q both'
    assert.equal('2', broker:redis_cli('HLEN', ('{tide}:%s:pauses'):format(broker.vhost)))
    c:ok 'DELETE queue q'
    assert.equal('0', broker:redis_cli('HLEN', ('{tide}:%s:pauses'):format(broker.vhost)))
    c:ok 'DECLARE queue q'
    c:ok('PUB - q', 'x')
  end)

  it('is not paused when Redis refuses that, and can be resumed while its memory is out', function()
    c:ok 'DECLARE queue q'
    c:ok 'DECLARE queue other'
    c:ok 'PAUSE q both'
    broker:redis_cli('CONFIG', 'SET', 'maxmemory', '1')
    assert.matches('^ERR store OOM', c:request 'PAUSE other in')
    assert.equal('no', state 'other')
    c:ok 'RESUME q'
    broker:redis_cli('CONFIG', 'SET', 'maxmemory', '0')
    restart()
    assert.equal('no', state 'q')
    assert.equal('no', state 'other')
  end)

  it('may be paused from the command line', function()
    c:ok 'DECLARE queue q'
    local out, status = broker:cli('pause', '--for', '1h', 'q', 'both')
    assert.same({ '', 0 }, { out, status })
    assert.equal('both', state 'q')
    assert.matches('q%s.*both', (broker:cli('list', 'queues')))
    assert.equal(0, select(2, broker:cli('resume', 'q', 'out')))
    assert.equal('in', state 'q')
    assert.equal(0, select(2, broker:cli('resume', 'q')))
    assert.equal('no', state 'q')
    assert.same({ "tidemq: syntax: 'up': expected in, out or both\n", 1 }, { broker:cli('pause', 'q', 'up') })
  end)

  it('is named in full when the request is wrong', function()
    c:ok 'DECLARE queue q'
    c:expect_answer('PAUSE q', 'ERR syntax PAUSE needs <queue> and in|out|both: in|out|both is missing')
    c:expect_answer('PAUSE nobody in', "ERR not-found there is no queue 'nobody' in vhost '" .. broker.vhost .. "'")
    c:expect_answer('PAUSE q up', "ERR syntax 'up': expected in, out or both")
    c:expect_answer('PAUSE q in for=0', 'ERR syntax for=0: expected a duration like 250ms, 30s, 5m, 2h or 1d, '
      .. 'from 1ms to 3660d')
    c:expect_answer('RESUME q up', "ERR syntax 'up': expected in, out or both")
    c:expect_answer('RESUME q in', 'OK')
  end)
end)
