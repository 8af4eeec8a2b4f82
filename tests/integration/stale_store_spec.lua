-- Redis that lacks what it has confirmed: emptied, back from an older copy, or another one behind the same address.
local Broker = require 'support.broker'
local Http = require 'support.http'
local Redis = require 'support.redis'
local Stomp = require 'support.stomp'
local wait = require 'support.wait'

local EMPTIED = 'Redis has lost all that it kept: it was emptied, or is another one; nothing is stored until the data '
  .. 'is back, or the broker is restarted, which goes on with what is there'
local OLDER = 'Redis has lost the last (%d+) writes: it was restored from an older copy, or is another one; '
  .. 'nothing is stored until the data is back, or the broker is restarted, which goes on with what is there'

describe('a store', function()
  local redis, brokers, broker, http, c

  local function start(args)
    args = args or {}
    table.move({ '--store', redis.url }, 1, 2, #args + 1, args)
    broker = Broker.start { args = args, http = '127.0.0.1:0' }
    brokers[#brokers + 1] = broker
    http = Http.connect(broker)
    c = broker:connect()
  end

  before_each(function() brokers = {} end)

  after_each(function()
    for _, b in ipairs(brokers) do b:destroy() end
    if redis then redis:destroy() end
    redis = nil
  end)

  local function begin(...)
    redis = Redis.start { ... }
    start()
    c:ok 'DECLARE queue jobs'
    c:ok 'DECLARE topic events partitions=1'
  end

  local function publish(text)
    c:ok('PUB - jobs', text)
    c:ok('PUB - events', text)
  end

  --- Publishes to both are refused from the first one on, and everybody is told why.
  local function expect_refusals(pattern)
    assert.matches('^ERR store ' .. pattern .. '$', c:request('PUB - jobs', 'refused'))
    assert.matches('^ERR store ' .. pattern .. '$', c:request('PUB - events', 'refused'))
    assert.matches('^ERR store ' .. pattern .. '$', c:request('DECLARE queue late-' .. #broker:log()))
    broker:expect_log('error store: Redis at %S+: ' .. pattern)
    local health = http:get '/health/ready'
    assert.equal(503, health.status)
    assert.equal('store', health.json.reasons[1].code)
    assert.matches('^' .. pattern .. '$', health.json.reasons[1].text)
    assert.equal('stale', c:document('STATS').store.state)
    -- What needs no Redis goes on.
    c:ok 'DECLARE queue memory durable=0'
    c:ok('PUB - memory', 'x')
    c:ok 'GET memory ack=auto'
    assert.equal('x', c:expect_msg().payload)
  end

  local function kill_redis()
    redis:signal 'KILL'
    assert(wait.poll(function() return not redis:cli('PING'):find 'PONG' end))
  end

  local function copy(name) assert(os.execute(('cd %s && cp -r appendonlydir %s'):format(redis.dir, name))) end

  --- Redis ends, and comes back with that copy of its files.
  local function come_back_with(name)
    kill_redis()
    assert(os.execute(('cd %s && rm -rf appendonlydir && cp -r %s appendonlydir'):format(redis.dir, name)))
    redis:run()
  end

  local function expect_messages(...)
    local n = select('#', ...)
    local expected = { ... }
    local texts = {}
    for i, msg in ipairs(c:get('jobs max=100 ack=auto')) do texts[i] = msg.payload end
    assert.same(expected, texts)
    texts = {}
    for i, msg in ipairs(c:get(('events partition=0 offset=0 max=%d'):format(n))) do texts[i] = msg.payload end
    assert.same(expected, texts)
  end

  --- The way out: a restart begins with what is there, and says so by what it knows.
  local function restart()
    broker:expect_clean_stop()
    broker:run()
    http = Http.connect(broker)
    c = broker:connect()
    assert.same(200, http:get('/health/ready').status)
  end

  it('that was emptied confirms nothing more, and is not begun anew beside what memory knows', function()
    begin()
    publish 'a'
    redis:cli 'FLUSHALL'
    expect_refusals(EMPTIED)
    -- What is in memory can be worked off.
    c:ok 'GET jobs ack=auto'
    assert.equal('a', c:expect_msg().payload)
    assert.equal('', redis:cli('HGET', '{tide}:holder', 'incarnation'))
    restart()
    assert.matches('^ERR not%-found', c:request 'GET jobs')
    c:ok 'DECLARE queue jobs'
    c:ok 'DECLARE topic events partitions=1'
    publish 'b'
    broker:restart_after 'kill9'
    c = broker:connect()
    -- What was on its way to the emptied Redis may be there as well; nobody was told so.
    local msgs = c:get 'jobs max=10'
    assert.equal('b', msgs[#msgs].payload)
  end)

  it('that was emptied refuses transactions, and what comes by HTTP and STOMP', function()
    begin()
    redis:cli 'FLUSHALL'
    c:ok 'BEGIN'
    c:ok('PUB - jobs', 'x')
    c:ok('PUB - events', 'x')
    assert.matches('^ERR store nothing was applied: ' .. EMPTIED, c:request 'COMMIT')
    local answer = http:expect_error(503, 'store', 'POST', '/api/vhosts/%2F/exchanges/-/publish',
      { key = 'jobs', payload = 'x' })
    assert.matches(EMPTIED, answer)
    local stomp = Stomp.connect(broker)
    stomp:frame('SEND', { destination = '/queue/jobs', receipt = '1' }, 'x')
    local frame = stomp:expect 'ERROR'
    assert.matches('Redis has lost all that it kept', frame.headers.message .. frame.body)
  end)

  it('that is emptied under load confirms nothing that it has after that', function()
    begin()
    local count = 20000
    for first = 1, count, 1000 do
      c:send(('PUB - jobs 1\r\nx\r\nPUB - events 1\r\nx\r\n'):rep(500))
      if first == 10001 then redis:cli 'FLUSHALL' end
    end
    local confirmed, refused = {}, 0
    for _ = 1, count do
      local id = c:expect('^%u+ (%S+)', 30)
      if id == 'store' then refused = refused + 1 else confirmed[id] = true end
    end
    assert.is_true(refused > 0)
    for id in redis:cli('HKEYS', 'tide:{//jobs#0}:msg'):gmatch '%x+' do
      assert.is_nil(confirmed[id], 'confirmed beside what was lost: ' .. id)
    end
  end)

  it('of a broker\'s own that comes back empty confirms nothing more', function()
    redis = nil
    broker = Broker.start { http = '127.0.0.1:0' }
    brokers[#brokers + 1] = broker
    http = Http.connect(broker)
    c = broker:connect()
    c:ok 'DECLARE queue jobs'
    c:ok 'DECLARE topic events partitions=1'
    publish 'a'
    -- The first to end is started again at once: by then it finds nothing.
    assert(os.execute(('rm -rf %s/appendonlydir'):format(broker.data)))
    broker:kill9_redis()
    expect_refusals(EMPTIED)
    restart()
    c:ok 'DECLARE queue jobs'
    c:ok 'DECLARE topic events partitions=1'
    publish 'b'
  end)

  it('that was emptied is noticed though nobody publishes', function()
    begin()
    publish 'a'
    redis:cli 'FLUSHALL'
    broker:expect_log('error store: Redis at %S+: ' .. EMPTIED)
    expect_refusals(EMPTIED)
  end)

  it('that came back empty confirms nothing more', function()
    begin('--appendonly', 'no')
    publish 'a'
    kill_redis()
    -- It waits for Redis, and is refused when that is there.
    c:send 'PUB - jobs 1\r\nb\r\n'
    redis:run()
    assert.matches('^ERR store ' .. EMPTIED, c:read_line(30))
    expect_refusals(EMPTIED)
    restart()
  end)

  it('that came back from an older copy confirms nothing more, until all is back', function()
    begin()
    publish 'a'
    copy 'older'
    publish 'b'
    copy 'newer'
    come_back_with 'older'
    expect_refusals(OLDER)
    -- A publish to a queue is a write, and so is one to a topic.
    assert.equal('2', broker:expect_log(OLDER))
    come_back_with 'newer'
    broker:expect_log 'is back after'
    assert(wait.poll(function() return c:request('PUB - jobs', 'c'):find '^OK' end))
    c:ok('PUB - events', 'c')
    assert.equal(200, http:get('/health/ready').status)
    broker:restart_after 'kill9'
    c = broker:connect()
    expect_messages('a', 'b', 'c')
  end)

  it('that came back from a copy of before this start is no other broker\'s', function()
    begin()
    publish 'a'
    broker:expect_clean_stop()
    copy 'older'
    restart()
    publish 'b'
    come_back_with 'older'
    expect_refusals(OLDER)
    restart()
    publish 'c'
    expect_messages('a', 'c')
  end)

  it('is not another Redis behind the same address', function()
    redis = Redis.start()
    start()
    broker:connect():ok 'DECLARE queue theirs'
    broker:kill9()
    copy 'theirs'
    redis:cli 'FLUSHALL'
    start()
    c:ok 'DECLARE queue jobs'
    c:ok 'DECLARE topic events partitions=1'
    for i = 1, 10 do publish(tostring(i)) end
    copy 'ours'
    come_back_with 'theirs'
    expect_refusals(OLDER)
    assert.equal('theirs', redis:cli('HKEYS', '{tide}:/:queues'))
    come_back_with 'ours'
    assert(wait.poll(function() return c:request('PUB - jobs', '11'):find '^OK' end))
    -- One in which no broker was.
    assert(os.execute(('mkdir %s/nothing'):format(redis.dir)))
    come_back_with 'nothing'
    expect_refusals(EMPTIED)
    assert.equal('', redis:cli '--scan')
  end)

  it('that was emptied is not taken by a standby while its holder lives', function()
    begin()
    publish 'a'
    local first = broker
    broker = Broker.start { args = { '--store', redis.url, '--standby' }, stopped = true }
    brokers[#brokers + 1] = broker
    broker:launch()
    broker:expect_log('another broker holds it: .*; standing by', 30)
    redis:cli 'FLUSHALL'
    first:expect_log(EMPTIED)
    -- It looks four times a second, and takes what eight looks find silent.
    broker:expect_log('another broker holds it: one that {tide}:holder does not name', 30)
    for _ = 1, 3 do c:expect_answer('GET events partition=0 offset=9 max=1 wait=1s', 'OK 0') end
    assert.equal('', redis:cli '--scan')
    first:kill9()
    assert.is_true(broker:wait_ready())
  end)
end)
