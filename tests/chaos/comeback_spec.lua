-- A batch is carried out, its answer is lost, and Redis refuses it when it is sent again:
-- what became of its messages meanwhile must be true of what Redis has of them, too.
local Broker = require 'support.broker'
local Proxy = require 'chaos.support.proxy'
local Redis = require 'support.redis'
local wait = require 'support.wait'

describe('a batch that was carried out and is refused when it is sent again', function()
  local redis, proxy, broker

  before_each(function()
    redis = Redis.start()
    proxy = Proxy.start(redis)
    broker = Broker.start { args = { '--store', proxy.url } }
  end)

  after_each(function()
    broker:destroy()
    proxy:destroy()
    redis:destroy()
  end)

  --- What `c` sends next is written by a transaction that is carried out, and not answered.
  local function hold_after_exec(c, request, commands)
    proxy:arm(commands or 4, 'after', 'hold') -- MULTI, HSET, ZADD, EXEC
    c:send(request)
    local _, command = proxy:wait_held(30)
    assert.are.equal('EXEC', command)
  end

  local function refuse_again()
    redis:cli('CONFIG', 'SET', 'maxmemory', '1')
    proxy:cut()
  end

  local function restart()
    redis:cli('CONFIG', 'SET', 'maxmemory', '0')
    broker:kill9()
    broker:launch()
    assert(broker:wait_ready() == true)
    return broker:connect()
  end

  local function expect_empty(c)
    c:send 'GET q max=10 wait=0\r\n'
    assert.are.equal('OK 0', c:read_line(30))
    assert.are.equal('', redis:cli('HKEYS', 'tide:{//q#0}:msg'))
  end

  local function consume()
    local publisher, consumer = broker:connect(), broker:connect()
    consumer:ok 'DECLARE queue q'
    publisher:ok('PUB - q', 'before')
    consumer:ok('SUB q q')
    consumer:ok('ACK ' .. consumer:expect_msg(30).tag)
    return publisher, consumer
  end

  it('does not bring back a message that was acknowledged before the refusal', function()
    local publisher, consumer = consume()
    hold_after_exec(publisher, 'PUB - q 1\r\na\r\n')
    consumer:send(('ACK %s\r\n'):format(consumer:expect_msg(30).tag))
    publisher:expect('^OK', 30) -- the acknowledgement has arrived
    refuse_again()
    consumer:expect('^OK', 30)
    expect_empty(restart())
  end)

  it('does not bring back a message that is acknowledged after the refusal', function()
    local publisher, consumer = consume()
    hold_after_exec(publisher, 'PUB - q 1\r\na\r\n')
    local tag = consumer:expect_msg(30).tag
    refuse_again()
    publisher:expect('^ERR store', 30)
    consumer:ok('ACK ' .. tag)
    expect_empty(restart())
  end)

  it('removes a message that its publisher was refused', function()
    local publisher, consumer = consume()
    consumer:ok 'UNSUB q'
    hold_after_exec(publisher, 'PUB - q 1\r\na\r\n')
    refuse_again()
    publisher:expect('^ERR store', 30)
    assert(wait.poll(function() return redis:cli('HKEYS', 'tide:{//q#0}:msg') == '' end, 30))
    expect_empty(restart())
  end)

  it('leaves a message that was returned twice in one place', function()
    local publisher, consumer = consume()
    publisher:ok('PUB - q', 'a')
    local tag = consumer:expect_msg(30).tag
    hold_after_exec(consumer, ('NACK %s delay=500ms\r\n'):format(tag), 5) -- and ZREM
    consumer:expect('^OK', 30)
    tag = consumer:expect_msg(30).tag
    refuse_again()
    redis:cli('CONFIG', 'SET', 'maxmemory', '0')
    assert(wait.poll(function() return redis:cli('ZCARD', 'tide:{//q#0}:delayed') == '0' end, 30))
    assert.are.equal('1', redis:cli('ZCARD', 'tide:{//q#0}:ready'))
    consumer:ok('ACK ' .. tag)
    expect_empty(restart())
  end)
end)
