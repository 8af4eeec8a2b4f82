-- Two brokers on one Redis: one holds the store at a time.
local Broker = require 'support.broker'
local Redis = require 'support.redis'
local traffic = require 'support.traffic'
local wait = require 'support.wait'

describe('a store', function()
  local redis, brokers

  before_each(function()
    redis = Redis.start()
    brokers = {}
  end)

  after_each(function()
    for _, broker in ipairs(brokers) do broker:destroy() end
    redis:destroy()
  end)

  local function start(options)
    options = options or {}
    options.args = options.args or {}
    table.insert(options.args, '--store')
    table.insert(options.args, options.url or redis.url)
    options.url = nil
    local broker, why, status = Broker.start(options)
    brokers[#brokers + 1] = broker
    return broker, why, status
  end

  local function start_standby()
    local broker = start { args = { '--standby' }, stopped = true }
    broker:launch()
    broker:expect_log('another broker holds it: .*; standing by', 30)
    return broker
  end

  local function expect_takeover(broker)
    assert.is_true(broker:wait_ready())
    return broker:connect()
  end

  local function expect_status(broker, status)
    assert.equal(status, wait.poll(function() return broker:exit_status() end, 30))
  end

  local function held_by() return redis:cli('HGET', '{tide}:holder', 'pid') end

  it('is not given to a second broker while the first one lives', function()
    local first = start()
    local c = first:connect()
    c:ok 'DECLARE queue jobs'
    local _, why, status = start { may_fail = true }
    assert.equal(1, status)
    local pattern = '^tidemq: Redis at .*: another broker holds this store: node 0, pid (%d+) on (%S+), '
      .. 'since %d+%-%d+%-%d+T%d+:%d+:%d+Z; with %-%-standby this one waits'
    assert.equal(first:pid(), math.tointeger(tonumber((why:match('[^\n]*\n$'):match(pattern)))))
    -- Nothing of it has reached the first one.
    c:ok('PUB - jobs', 'x')
    assert.is_nil(first:log():find 'lost')
    first:expect_clean_stop()
    assert.equal('', held_by())
    start()
  end)

  it('is taken over by a standby when the holder is killed', function()
    local first = start { args = { '--node', '7' } }
    local c = first:connect()
    c:ok 'DECLARE queue jobs'
    local second = start_standby()
    assert.equal('', second:stdout())
    traffic.publish(c, 'jobs', 100)
    first:kill9()
    c = expect_takeover(second)
    second:expect_log 'taking over from .*: node 7, pid %d+ on %S+, since'
    assert.equal(100, #traffic.take(c, 'jobs', 100))
    assert.equal(tostring(second:pid()), held_by())
  end)

  it('is given back by an orderly end', function()
    local first = start()
    first:connect():ok 'DECLARE queue jobs'
    local second = start_standby()
    first:expect_clean_stop()
    local c = expect_takeover(second)
    c:ok('PUB - jobs', 'x')
    assert.is_nil(second:log():find 'taking over')
    second:expect_clean_stop()
  end)

  it('is not waited for after a kill: the process has visibly ended', function()
    local broker = start()
    broker:kill9()
    broker:run()
    broker:expect_log 'taking over from '
    assert.is_nil(broker:log():find 'waiting to see')
  end)

  it('is lost to a holder that stood still, which then writes nothing', function()
    local first = start()
    local c = first:connect()
    c:ok 'DECLARE queue jobs'
    c:ok('PUB - jobs', 'a')
    local second = start_standby()
    first:signal 'STOP'
    -- It finds all of this when it goes on.
    c:send 'GET jobs\r\nDECLARE queue late\r\nPUB - jobs 1\r\nb\r\n'
    local other = expect_takeover(second)
    other:ok('PUB - jobs', 'c')
    local _, holders = redis:cli('CLIENT', 'LIST'):gsub('name=tidemq:', '')
    assert.equal(1, holders)
    local keys = redis:cli '--scan'
    first:signal 'CONT'
    expect_status(first, 1)
    first:expect_log('another broker has taken the store over: node 0, pid ' .. second:pid())
    -- The GET may be answered from memory, and nothing else.
    local line = c:read_line()
    if line == 'OK 1' then
      assert.equal('a', c:expect_msg().payload)
      line = c:read_line()
    end
    assert.matches('^EVT closed shutdown', line)
    c:expect_closed()
    assert.equal(keys, redis:cli '--scan')
    assert.same({ 'a', 'c' }, (traffic.take(other, 'jobs', 2)))
    second:expect_clean_stop()
  end)

  it('stays with its holder when both lose their connections', function()
    local first = start()
    local second = start_standby()
    for _ = 1, 3 do
      redis:cli('CLIENT', 'KILL', 'TYPE', 'normal')
      local c = first:connect()
      c:ok 'DECLARE queue jobs'
      c:ok('PUB - jobs', 'x')
    end
    second:expect_log 'still standing by, reconnecting'
    assert.is_true(first:is_running())
    assert.equal('', second:stdout())
    first:kill9()
    expect_takeover(second):ok 'GET jobs'
  end)

  it('stays with its holder when Redis stands still', function()
    local first = start()
    local c = first:connect()
    c:ok 'DECLARE queue nothing durable=0'
    local second = start_standby()
    local pid = redis:pid()
    redis:signal('STOP', pid)
    -- Longer than the lease.
    for _ = 1, 4 do c:expect_answer('GET nothing wait=1s', 'OK 0') end
    redis:signal('CONT', pid)
    c:ok 'DECLARE queue jobs'
    c:ok('PUB - jobs', 'x')
    assert.is_true(first:is_running())
    assert.equal('', second:stdout())
  end)

  it('is held also while Redis is out of memory', function()
    local first = start()
    local c = first:connect()
    c:ok 'DECLARE queue jobs'
    traffic.publish(c, 'jobs', 10)
    redis:cli('CONFIG', 'SET', 'maxmemory', '1')
    first:kill9()
    local second = start()
    assert.equal(tostring(second:pid()), held_by())
    assert.equal(10, #traffic.take(second:connect(), 'jobs', 10))
  end)

  it('stays with its holder while Redis refuses every write, and is given to nobody', function()
    local first = start()
    redis:cli('ACL', 'SETUSER', 'default', '-@write')
    redis:cli('CLIENT', 'KILL', 'TYPE', 'normal')
    first:expect_log 'is back after'
    first:kill9()
    local _, why, status = start { may_fail = true }
    assert.equal(1, status)
    assert.matches('the broker cannot write {tide}:holder, which keeps a second broker away: ', why)
    redis:cli('ACL', 'SETUSER', 'default', '+@all')
    start()
  end)

  it('is one database of a Redis', function()
    start()
    local other = start { url = redis.url .. '?db=1' }
    other:connect():ok 'DECLARE queue jobs'
    other:kill9()
    other:run()
    assert.is_true(brokers[1]:is_running())
    brokers[1]:connect():ok 'DECLARE queue jobs'
  end)

  it('needs a user that may look at connections and end them', function()
    local user = 'redis+unix:me:secret@' .. redis.path
    local function refused(rule)
      redis:cli('ACL', 'SETUSER', 'me', 'reset', 'on', '>secret', '~tide:*', '~{tide}:*', '+@all', table.unpack(rule))
      local _, why, status = start { url = user, may_fail = true }
      assert.equal(1, status)
      return why
    end
    assert.matches('cannot run CLIENT KILL, which keeps a second broker away: NOPERM', refused { '-client|kill' })
    assert.matches('cannot run CLIENT LIST, which keeps a second broker away: NOPERM', refused { '-client|list' })
    assert.matches('cannot write {tide}:holder, which keeps a second broker away: NOPERM', refused { '-eval' })
    -- What docs/redis.md says is enough.
    redis:cli('ACL', 'SETUSER', 'me', 'reset', 'on', '>secret', '~tide:*', '~{tide}:*', '+@read', '+@write',
      '+@transaction', '+@scripting', '+@connection', '+info', '+config|get')
    start { url = user }
  end)

  it('of a broker\'s own needs no standby', function()
    local broker, why, status = Broker.start { args = { '--standby' }, may_fail = true }
    assert.is_nil(broker)
    assert.equal(2, status)
    assert.matches('%-%-standby needs a Redis that both brokers reach, .*not %-%-store embedded', why)
  end)
end)
