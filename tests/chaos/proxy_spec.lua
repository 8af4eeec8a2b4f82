-- The proxy that the crash matrix stands on.
local Broker = require 'support.broker'
local Proxy = require 'chaos.support.proxy'
local Redis = require 'support.redis'
local socket = require 'socket'
local wait = require 'support.wait'

describe('the proxy before Redis', function()
  local redis, proxy, broker, c

  before_each(function()
    redis = Redis.start()
    proxy = Proxy.start(redis)
    broker = Broker.start { args = { '--store', proxy.url } }
    c = broker:connect()
    c:ok 'DECLARE queue jobs'
  end)

  after_each(function()
    broker:destroy()
    proxy:destroy()
    redis:destroy()
  end)

  local function length() return redis:cli('HLEN', 'tide:{//jobs#0}:msg') end

  --- A publish that waits at its first command for Redis that names the queue.
  local function publish_held(when)
    c:request('PUB - jobs', 'one') -- the mark of ids is written by now
    proxy:arm(1, when, 'hold')
    c:send 'PUB - jobs 3\r\ntwo\r\n'
    return proxy:wait_held()
  end

  it('holds a command that Redis has not seen', function()
    local n, command = publish_held 'before'
    assert.equal(n, proxy:count())
    assert.truthy(command:find '%S')
    assert.equal('1', length())
    proxy:go()
    c:expect '^OK %x+ 1$'
    assert.equal('2', length())
  end)

  it('holds the answer to a command that Redis has carried out', function()
    publish_held 'after'
    proxy:go()
    c:expect '^OK %x+ 1$'
    assert.equal('2', length())
  end)

  it('cuts the connection, and the broker sends again what was not answered', function()
    for _, when in ipairs { 'before', 'after' } do
      proxy:arm(1, when, 'cut')
      c:send 'PUB - jobs 3\r\ntwo\r\n'
      c:expect '^OK %x+ 1$'
      assert.equal('idle', (proxy:state()))
    end
    assert.equal('2', length())
  end)

  it('kills the broker at a command', function()
    proxy:arm(1, 'before', 'cut', 'kill -9 ' .. broker:pid())
    c:send 'PUB - jobs 3\r\ntwo\r\n'
    c:expect_closed()
    assert.equal('0', length())
    assert(wait.poll(function() return not broker:is_running() end))
    broker:run()
    assert.equal(0, broker:connect():stats('jobs').ready)
  end)

  it('keeps answers back', function()
    proxy:delay(300)
    local began = socket.gettime()
    c:ok('PUB - jobs', 'two')
    assert.is_true(socket.gettime() - began >= 0.3)
    proxy:delay(0)
  end)

  it('notes the commands that pass', function()
    proxy:trace()
    c:ok('PUB - jobs', 'two')
    local lines = table.concat(proxy:trace(), '\n')
    assert.truthy(lines:find('HSET tide:{//jobs#0}:msg', 1, true), lines)
  end)
end)
