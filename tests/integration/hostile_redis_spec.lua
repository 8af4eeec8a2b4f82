-- What stands in Redis was not written by this broker: it is refused, and breaks nothing.
local Broker = require 'support.broker'

describe('a body in Redis', function()
  local broker

  after_each(function()
    broker:destroy()
  end)

  --- A message whose body is replaced by that of `fields`, a Lua table in text.
  local function replace_body(queue, fields)
    local key = ('tide:{//%s#0}:msg'):format(queue)
    local id = broker:redis_cli('HKEYS', key)
    assert.equal(16, #id)
    assert.equal('0', broker:redis_cli('EVAL',
      ("return redis.call('HSET', KEYS[1], ARGV[1], cmsgpack.pack(%s))"):format(fields), 1, key, id))
    return id
  end

  it('has no names that PUB would not take', function()
    broker = Broker.start()
    local c = broker:connect()
    local bodies = {
      key = "{1, '', string.rep('K', 200000), 1, 0, 0, 0, 0, {a = 'b'}, 'x'}",
      exchange = "{1, string.rep('e', 256), 'k', 1, 0, 0, 0, 0, {a = 'b'}, 'x'}",
      line = "{1, '', 'k\\r\\nOK', 1, 0, 0, 0, 0, {a = 'b'}, 'x'}",
      header = "{1, '', 'k', 1, 0, 0, 0, 0, {['a b'] = 'b'}, 'x'}",
    }
    for queue in pairs(bodies) do
      c:ok('DECLARE queue ' .. queue)
      c:send(('PUB - %s 1\r\nx\r\n'):format(queue))
      c:expect '^OK %x+ 1$'
    end
    local ids = {}
    for queue, fields in pairs(bodies) do ids[#ids + 1] = replace_body(queue, fields) end
    broker:restart()
    c = broker:connect()
    for queue in pairs(bodies) do
      c:send(('GET %s\r\n'):format(queue))
      c:expect_line 'OK 0'
    end
    for _, id in ipairs(ids) do broker:expect_log(id .. '.-is not a name') end
    broker:expect_clean_stop()
  end)
end)

describe('a message that is too long for Redis', function()
  local broker, redis, c

  after_each(function()
    broker:destroy()
  end)

  local function start(...)
    broker = Broker.start { redis = { ... } }
    redis = broker.redis
    c = broker:connect()
    c:ok 'DECLARE queue jobs'
    c:ok 'DECLARE queue memory durable=0'
  end

  local big = ('x'):rep(1500000)

  it('is refused for a durable queue, and only there', function()
    start('--proto-max-bulk-len', '1mb')
    broker:expect_log '%-%-max%-payload is 16777216, and Redis takes 1048576'
    assert.matches("^ERR too%-large .*durable queue 'jobs': Redis accepts 1048576 %(proto%-max%-bulk%-len%)",
      c:request('PUB - jobs', big))
    c:ok('PUB - memory', big)
    c:ok('PUB - jobs', 'small')
    assert.equal('1', redis:cli('ZCARD', broker:key('jobs', 'ready')))
    assert.is_nil(broker:log():find 'lost')
  end)

  it('fails alone when Redis hangs up on it', function()
    start()
    c:ok('PUB - jobs', 'before')
    -- The broker has asked at the start.
    redis:cli('CONFIG', 'SET', 'proto-max-bulk-len', '1mb')
    assert.matches('^ERR store ', c:request('PUB - jobs', big))
    broker:expect_log 'giving up a request of %d+ bytes'
    c:ok('PUB - jobs', 'behind')
    -- By now it has asked again.
    assert.matches('^ERR too%-large ', c:request('PUB - jobs', big))
    broker:restart()
    c = broker:connect()
    c:send 'GET jobs max=9\r\n'
    c:expect_line 'OK 2'
    assert.equal('before', c:expect_msg().payload)
    assert.equal('behind', c:expect_msg().payload)
  end)
end)
