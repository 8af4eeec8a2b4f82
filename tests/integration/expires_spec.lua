-- DECLARE queue expires=: a queue that nobody uses goes.
local Broker = require 'support.broker'
local traffic = require 'support.traffic'
local wait = require 'support.wait'

describe('a queue that expires', function()
  local broker, c

  setup(function() broker = Broker.start { args = { '--fsync', 'no' } } end)
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
          assert.equal('0', broker:redis_cli('HEXISTS', ('tide:%s:queues'):format(broker.vhost), 'q'))
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
    assert.equal('0', broker:redis_cli('HLEN', ('tide:%s:pauses'):format(broker.vhost)))
  end)

  it('is an option of the queue like others', function()
    c:ok 'DECLARE queue q expires=1h'
    c:ok 'DECLARE queue q expires=60m'
    c:expect_answer('DECLARE queue q',
      "ERR mismatch queue 'q' exists with other options: it has expires=1h, not expires=0; " ..
      'the option update changes that')
    c:expect_answer('DECLARE queue new expires=soon',
      'ERR syntax expires=soon: expected a duration from 1ms to 3660d, or 0 for never')
  end)
end)
