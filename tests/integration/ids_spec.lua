-- Ids go up whatever the clock does, through restarts and kills, and lie below a mark that Redis has.
local Broker = require 'support.broker'
local Redis = require 'support.redis'
local wait = require 'support.wait'

local function unix_ms(id) return tonumber(id, 16) >> 22 end

local function now_ms() return os.time() * 1000 end

describe('the ids of messages', function()
  local broker, c

  before_each(function()
    broker = Broker.start()
    c = broker:connect()
    c:ok 'DECLARE queue jobs'
  end)

  after_each(function()
    broker:destroy()
  end)

  local function publish()
    c:send 'PUB - jobs 1\r\nx\r\n'
    return (c:expect '^OK (%x+) 1$')
  end

  local function mark(node) return math.tointeger(tonumber(broker:redis_cli('HGET', '{tide}:ids', node or 0))) end

  it('lie below a mark in Redis that is a little ahead of them', function()
    for _ = 1, 20 do
      local id = unix_ms(publish())
      local ahead = mark() - id
      -- On a busy machine the mark may have moved meanwhile.
      assert.is_true(ahead > 0 and ahead <= 60000, ahead)
    end
    -- It moves with the clock, and not with every message.
    local before = mark()
    assert(wait.poll(function() return mark() > before end, 30))
    assert.is_true(mark() - before >= 4000)
  end)

  it('go on from the mark when the clock was set back', function()
    local before = publish()
    broker:expect_clean_stop()
    broker:restart()
    c = broker:connect()
    local day = 24 * 3600 * 1000
    local future = now_ms() + day
    broker:redis_cli('HSET', '{tide}:ids', '0', future, '1', future + 30 * day)
    broker:kill9_all()
    broker:run()
    c = broker:connect()
    broker:expect_log 'the clock is 8%d%d%d%d s behind {tide}:ids'
    local id = publish()
    assert.equal(future + 1, unix_ms(id))
    assert.is_true(mark() > future)
    assert.equal(future + 30 * day, mark(1))
    -- The message's own time is the clock's.
    c:send 'GET jobs max=2 ack=auto\r\n'
    c:expect_line 'OK 2'
    assert.equal(before, c:expect_msg().options.id)
    local msg = c:expect_msg()
    assert.equal(id, msg.options.id)
    assert.is_true(math.abs(tonumber(msg.options.ts) - now_ms()) < 60000)
  end)

  it('do not repeat after a kill', function()
    local last = publish()
    for _ = 1, 2 do
      broker:kill9_all()
      broker:run()
      c = broker:connect()
      local first = publish()
      assert.is_true(unix_ms(first) > unix_ms(last) and first > last)
      last = first
    end
    assert.is_true(mark() < now_ms() + 120000)
  end)

  it('run no further ahead of the clock with each kill, and nobody is told that it was set', function()
    local last = publish()
    for _ = 1, 12 do
      broker:kill9()
      broker:run()
      c = broker:connect()
      local id = publish()
      assert.is_true(id > last)
      last = id
      -- The Redis of the broker before it may just be ending.
      local ahead = assert(wait.poll(mark)) - now_ms()
      assert.is_true(ahead <= 20000, ahead)
    end
    assert.is_nil(broker:log():find 'the clock')
  end)

end)

describe('the ids of messages, on a Redis that is not the broker\'s,', function()
  local broker, redis, c

  after_each(function()
    if broker then broker:destroy() end
    if redis then redis:destroy() end
    broker, redis = nil, nil
  end)

  local function start()
    redis = redis or Redis.start()
    local why, status
    broker, why, status = Broker.start { args = { '--store', redis.url }, may_fail = true }
    c = broker and broker:connect()
    return why, status
  end

  local function kill_and_start()
    broker:kill9()
    broker:run()
    c = broker:connect()
  end

  local function publish() return c:request('PUB - jobs', 'x') end

  --- Publish until it works: the broker tries the mark again some times a second.
  local function publish_at_last()
    return assert(wait.poll(function() return publish():match '^OK (%x+) 1$' end, 30))
  end

  it('do not repeat when the mark could not be written', function()
    start()
    c:ok 'DECLARE queue jobs'
    local ids = {}
    local function keep(id)
      assert.is_nil(ids[id], 'given twice: ' .. id)
      ids[id] = true
    end
    keep(publish():match '^OK (%x+) 1$')
    broker:kill9()
    redis:cli('CONFIG', 'SET', 'maxmemory', '1')
    broker:run()
    c = broker:connect()
    assert.matches('^ERR store .*{tide}:ids.*OOM', publish())
    broker:expect_log 'cannot write the mark of message ids to Redis %({tide}:ids%), trying again: OOM'
    redis:cli('CONFIG', 'SET', 'maxmemory', '0')
    keep(publish_at_last())
    for _ = 1, 4 do keep(publish():match '^OK (%x+) 1$') end
    kill_and_start()
    for _ = 1, 5 do keep(publish():match '^OK (%x+) 1$') end
    assert.equal(11, c:stats('jobs').ready)
  end)

  it('go on when Redis has refused a mark for a while', function()
    start()
    c:ok 'DECLARE queue jobs'
    local first = publish():match '^OK (%x+) 1$'
    redis:cli('CONFIG', 'SET', 'maxmemory', '1')
    broker:expect_log('cannot write the mark of message ids', 30)
    -- Each of these has an id, and is refused for the same reason as the mark.
    assert.matches('^ERR store OOM', publish())
    redis:cli('CONFIG', 'SET', 'maxmemory', '0')
    local id = publish_at_last()
    assert.is_true(id > first)
    broker:expect_log('Redis has taken the mark of message ids', 30)
  end)

  it('are not needed to consume: a broker starts and drains while Redis is out of memory', function()
    start()
    c:ok 'DECLARE queue jobs dead-letter=-/dead'
    c:ok 'DECLARE queue dead'
    for _ = 1, 20 do publish() end
    broker:kill9()
    redis:cli('CONFIG', 'SET', 'maxmemory', '1')
    broker:run()
    c = broker:connect()
    assert.matches('^ERR store .*{tide}:ids', publish())
    assert.equal(10, #c:get 'jobs max=10 ack=auto')
    local msgs = c:get 'jobs max=9'
    c:ok(('ACK %s-%s'):format(msgs[1].tag, msgs[9].tag))
    assert.equal('1', redis:cli('HLEN', broker:key('jobs', 'msg')))
    -- A copy would be a new message: the last one is buried, and nothing is lost.
    c:ok(('NACK %s dead'):format(c:get('jobs')[1].tag))
    broker:expect_log 'dead%-lettering: there is no id for a new message.*OOM.*the message is buried instead'
    assert.equal(1, c:stats('jobs').buried)
    redis:cli('CONFIG', 'SET', 'maxmemory', '0')
    publish_at_last()
    broker:expect_clean_stop()
  end)

  it('are refused to copies of filters and to schedules as to publishes', function()
    redis = Redis.start()
    broker = Broker.start {
      args = { '--store', redis.url },
      rules = {
        ['schedule/tick.lua'] = [[
          return { every = '1s', missed = 'skip', run = function(broker)
            broker.publish { key = 'ticks', payload = 'x' }
          end }
        ]],
      },
    }
    c = broker:connect()
    c:ok 'DECLARE queue ticks'
    assert(wait.poll(function() return c:stats('ticks').ready > 0 end, 30))
    broker:kill9()
    redis:cli('CONFIG', 'SET', 'maxmemory', '1')
    broker:run()
    c = broker:connect()
    local count = c:stats('ticks').ready
    broker:expect_log("schedule 'tick': there is no id for a new message", 30)
    assert.equal(count, c:stats('ticks').ready)
    redis:cli('CONFIG', 'SET', 'maxmemory', '0')
    assert(wait.poll(function() return c:stats('ticks').ready > count end, 30))
  end)

  it('are not begun anew when the mark cannot be read', function()
    start()
    for _, wrong in ipairs { 'x', '-1', '4398046511103', '99999999999999999999' } do
      broker:expect_clean_stop()
      redis:cli('HSET', '{tide}:ids', '0', wrong)
      broker:destroy()
      local why, status = start()
      assert.equal(1, status)
      assert.matches("field 0 of {tide}:ids in Redis is '" .. wrong:gsub('%-', '%%-') .. "', and should be", why)
      redis:cli('HSET', '{tide}:ids', '0', now_ms())
      start()
    end
    broker:expect_clean_stop()
    broker:destroy()
    redis:cli('DEL', '{tide}:ids')
    redis:cli('SET', '{tide}:ids', '1')
    local why, status = start()
    assert.equal(1, status)
    assert.matches("'{tide}:ids' in Redis is a string and has to be a hash", why, 1, true)
  end)
end)
