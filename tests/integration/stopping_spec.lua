-- The end of a broker whose Redis does not answer.
local Broker = require 'support.broker'
local traffic = require 'support.traffic'
local wait = require 'support.wait'

describe('a broker', function()
  local broker, redis, c

  after_each(function()
    if broker then broker:destroy() end
    broker = nil
  end)

  local function start_with_redis(args)
    broker = Broker.start { redis = {}, args = args }
    redis = broker.redis
    c = broker:connect()
  end

  --- Until the publish that was sent waits for Redis.
  local function wait_unstored()
    local other = broker:connect()
    assert(wait.poll(function()
      return other:document('STATS').store.unstored_bytes > 0
    end))
  end

  --- The second SIGTERM, once the first has been heard.
  local function terminate_twice()
    broker:signal 'TERM'
    broker:expect_log 'SIGTERM: stopping'
    broker:expect_clean_stop()
  end

  it('ends at SIGTERM though Redis does not answer', function()
    start_with_redis { '--drain-timeout', '100ms', '--stop-timeout', '300ms' }
    c:ok 'DECLARE queue jobs'
    c:ok 'DECLARE queue held durable=1'
    c:send 'PUB - held 1\r\nx\r\nGET held\r\n'
    c:expect '^OK %x+ 1$'
    c:expect_line 'OK 1'
    c:expect_msg()
    local pid = redis:pid()
    redis:signal('STOP', pid)
    c:send 'PUB - jobs 1\r\na\r\n'
    wait_unstored()
    broker:expect_clean_stop()
    redis:signal('CONT', pid)
    -- What was confirmed is there.
    broker:restart()
    c = broker:connect()
    traffic.expect_counts(c, 'held', { ready = 1 })
  end)

  it('kills a Redis of its own that stands still, when --stop-timeout is over', function()
    broker = Broker.start { args = { '--drain-timeout', '100ms', '--stop-timeout', '200ms' } }
    c = broker:connect()
    c:ok 'DECLARE queue jobs'
    os.execute('kill -STOP ' .. broker:redis_pid())
    c:send 'PUB - jobs 1\r\na\r\n'
    wait_unstored()
    broker:expect_clean_stop()
    assert.matches('did not store the returned messages and stop within %-%-stop%-timeout', broker:log())
    assert.matches('redis%-server does not stop; killing it', broker:log())
  end)

  it('ends at once at the second SIGTERM', function()
    start_with_redis { '--drain-timeout', '1h' }
    c:ok 'DECLARE queue jobs'
    local pid = redis:pid()
    redis:signal('STOP', pid)
    c:send 'PUB - jobs 1\r\na\r\n'
    wait_unstored()
    terminate_twice()
    redis:signal('CONT', pid)
  end)

  it('ends with status 0, however many signals come', function()
    broker = Broker.start()
    c = broker:connect()
    c:ok 'PING'
    os.execute(('while kill -TERM %d; do sleep 0.001; done 2>/dev/null'):format(broker:pid()))
    broker:expect_clean_stop()
  end)

  it('ends at the second SIGTERM with a Redis of its own that stands still', function()
    broker = Broker.start { args = { '--drain-timeout', '1h' } }
    c = broker:connect()
    c:ok 'DECLARE queue jobs'
    os.execute('kill -STOP ' .. broker:redis_pid())
    c:send 'PUB - jobs 1\r\na\r\n'
    wait_unstored()
    terminate_twice()
  end)
end)
