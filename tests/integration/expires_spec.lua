-- DECLARE queue expires=: a queue that nobody uses goes.
local Broker = require 'support.broker'
local Http = require 'support.http'
local traffic = require 'support.traffic'
local wait = require 'support.wait'

describe('a queue that expires', function()
  local broker, c

  setup(function() broker = Broker.start { http = '127.0.0.1:0', args = { '--fsync', 'no' } } end)
  teardown(function() broker:expect_clean_stop() end)
  before_each(function() c = broker:enter_vhost() end)
  after_each(function() c:close() end)

  local function exists(queue)
    for _, q in ipairs(c:document 'LIST queues') do
      if q.name == queue then return true end
    end
    return false
  end

  local function expect_gone(queue, use)
    assert(wait.poll(function()
      if use then use() end
      return not exists(queue)
    end), queue .. ' is still there')
  end

  for _, durable in ipairs { 0, 1 } do
    describe('durable=' .. durable .. ',', function()
      local function declare(name, options)
        return c:ok(('DECLARE queue %s durable=%d %s'):format(name, durable, options))
      end

      it('goes with its messages and bindings, and can be declared anew', function()
        declare('q', 'expires=1s')
        c:ok 'DECLARE exchange x fanout'
        c:ok 'BIND q x -'
        traffic.publish(c, 'q', 100)
        expect_gone 'q'
        assert.same({}, c:document 'LIST bindings')
        if durable == 1 then
          assert(wait.poll(function() return broker:redis_cli('EXISTS', broker:key('q', 'msg')) == '0' end))
          assert.equal('0', broker:redis_cli('HEXISTS', ('{tide}:%s:queues'):format(broker.vhost), 'q'))
        end
        broker:expect_log(("queue 'q' of vhost '%s' is deleted: nobody has used it for its expires=1s"):format(
          (broker.vhost:gsub('%-', '%%-'))))
        declare('q', 'expires=1h')
        assert.equal(0, c:stats('q').ready)
      end)

      it('stays while it has a subscription, and goes after that', function()
        declare('q', 'expires=500ms')
        c:ok 'SUB q s'
        declare('other', 'expires=800ms')
        expect_gone 'other'
        assert.is_true(exists 'q')
        c:ok 'UNSUB s'
        expect_gone 'q'
      end)

      it('stays while a GET waits', function()
        declare('q', 'expires=500ms')
        local waiting = broker:connect()
        waiting:send 'GET q wait=1h\r\n'
        declare('other', 'expires=800ms')
        expect_gone 'other'
        assert.is_true(exists 'q')
        waiting:close()
        expect_gone 'q'
      end)

      it('stays while it is declared or asked for messages, not for being published to', function()
        for _, name in ipairs { 'declared', 'asked', 'unused' } do declare(name, 'expires=1s') end
        expect_gone('unused', function()
          declare('declared', 'expires=1s')
          c:expect_answer('GET asked', 'OK 0')
          c:ok('PUB - unused', 'x')
        end)
        assert.is_true(exists 'declared')
        assert.is_true(exists 'asked')
      end)
    end)
  end

  --- Meanwhile another queue, declared later, goes.
  local function expect_to_stay(queue)
    c:ok 'DECLARE queue other expires=800ms'
    expect_gone 'other'
    assert.is_true(exists(queue), queue .. ' is gone')
  end

  it('stays while somebody holds one of its messages', function()
    c:ok 'DECLARE queue q'
    traffic.publish(c, 'q', 2)
    local tag = c:get('q')[1].tag
    c:ok 'DECLARE queue q update expires=500ms'
    expect_to_stay 'q'
    assert.equal('1', c:ok('ACK ' .. tag))
    expect_gone 'q'
  end)

  it('stays while somebody holds a message whose subscription has ended', function()
    c:ok 'DECLARE queue q'
    c:ok('PUB - q', 'x')
    c:ok 'SUB q s'
    local tag = c:expect_msg().tag
    c:ok 'UNSUB s'
    c:ok 'DECLARE queue q update expires=500ms'
    expect_to_stay 'q'
    assert.equal('1', c:ok('ACK ' .. tag))
    expect_gone 'q'
  end)

  it('stays while somebody has a receipt of HTTP', function()
    local path = ('/api/vhosts/%s/queues/q/'):format(broker.vhost)
    local http = Http.connect(broker)
    c:ok 'DECLARE queue q'
    c:ok('PUB - q', 'x')
    local receipt = http:expect(200, 'POST', path .. 'get', {}).messages[1].receipt
    c:ok 'DECLARE queue q update expires=500ms'
    expect_to_stay 'q'
    assert.equal(1, http:expect(200, 'POST', path .. 'ack', { receipts = { receipt } }).count)
    expect_gone 'q'
    http:close()
  end)

  it('has all of its time again when a message is held no longer', function()
    c:ok 'DECLARE queue q'
    c:ok('PUB - q', 'x')
    local tag = c:get('q')[1].tag
    c:ok 'DECLARE queue q update expires=2s'
    c:ok 'DECLARE queue clock expires=1s'
    expect_gone 'clock'
    c:ok 'DECLARE queue other expires=1500ms'
    c:ok('ACK ' .. tag)
    local left
    assert(wait.poll(function()
      left = {}
      for _, q in ipairs(c:document 'LIST queues') do left[q.name] = true end
      return not left.q
    end))
    assert.is_nil(left.other)
  end)

  it('stays with expires-if=empty while it has a message, in whatever state', function()
    c:ok 'DECLARE queue q retry=none'
    local id = c:ok('PUB - q', 'ready'):match '^%x+'
    c:ok 'DECLARE queue q update expires=400ms expires-if=empty'
    expect_to_stay 'q'
    c:ok('RESCHEDULE q ' .. id .. ' delay=1h')
    expect_to_stay 'q'
    c:ok('KICK q id=' .. id)
    c:ok('NACK ' .. c:get('q')[1].tag)
    assert.equal(1, c:stats('q').buried)
    expect_to_stay 'q'
    c:ok 'PURGE q'
    expect_gone 'q'
  end)

  it('expires after a restart', function()
    c:ok 'DECLARE queue q expires=1s'
    c:ok 'DECLARE queue long expires=1h'
    traffic.publish(c, 'q', 10)
    broker:kill9_all()
    broker:run()
    c = broker:connect()
    expect_gone 'q'
    assert.is_true(exists 'long')
  end)

  it('expires while it is paused and at its limits', function()
    c:ok 'DECLARE queue q expires=1s max-length=1 rate=1/h'
    c:ok('PUB - q', 'x')
    c:ok 'PAUSE q both'
    expect_gone 'q'
    assert.equal('0', broker:redis_cli('HLEN', ('{tide}:%s:pauses'):format(broker.vhost)))
  end)

  it('is an option of the queue like others', function()
    c:ok 'DECLARE queue q expires=1h'
    c:ok 'DECLARE queue q expires=60m'
    c:expect_answer('DECLARE queue q',
      "ERR mismatch queue 'q' exists with other options: it has expires=1h, not expires=0; " ..
      'the option update changes that')
    c:expect_answer('DECLARE queue new expires-if=empty',
      'ERR syntax expires-if= says which queue goes after its expires=: give expires=')
    c:expect_answer('DECLARE queue new expires=1h expires-if=full',
      'ERR syntax expires-if=full: expected unused or empty')
    c:ok 'DECLARE queue q update expires-if=empty'
    c:ok 'DECLARE queue q expires=1h expires-if=empty'
    c:expect_answer('DECLARE queue new expires=soon',
      'ERR syntax expires=soon: expected a duration from 1ms to 3660d, or 0 for never')
  end)
end)
