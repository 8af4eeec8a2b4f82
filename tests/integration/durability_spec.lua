-- What is kept through crashes, on the embedded Redis.
local Broker = require 'support.broker'
local shell = require 'support.shell'
local traffic = require 'support.traffic'
local wait = require 'support.wait'

local function sum(broker, queue)
  local n = 0
  for _, set in ipairs { 'ready', 'delayed', 'unack', 'buried' } do
    -- A Redis that its killed broker took along may just be starting again.
    n = n + (tonumber(broker:redis_cli('ZCARD', broker:key(queue, set))) or 1)
  end
  return n
end

describe('a durable queue', function()
  local broker, c

  setup(function() broker = Broker.start() end)
  teardown(function() broker:destroy() end)
  before_each(function() c = broker:enter_vhost() end)
  after_each(function() c:close() end)

  local function crash(how)
    broker[how](broker)
    broker:restart()
    c = broker:connect()
  end

  it('has every confirmed message after kill -9 of broker and Redis', function()
    c:ok 'DECLARE queue jobs'
    traffic.publish(c, 'jobs', 500)
    crash 'kill9_all'
    local payloads = traffic.take(c, 'jobs', 500)
    for i = 1, 500 do assert.equal(tostring(i), payloads[i]) end
    traffic.expect_counts(c, 'jobs', { ready = 0, unacked = 0 })
  end)

  it('has every confirmed message after kill -9 of the broker alone', function()
    c:ok 'DECLARE queue jobs'
    traffic.publish(c, 'jobs', 500)
    crash 'kill9'
    assert.equal(500, #traffic.take(c, 'jobs', 500))
  end)

  it('has no message again whose ACK was answered OK', function()
    c:ok 'DECLARE queue jobs'
    traffic.publish(c, 'jobs', 300)
    traffic.take(c, 'jobs', 200)
    crash 'kill9_all'
    traffic.expect_counts(c, 'jobs', { ready = 100 })
    local payloads = traffic.take(c, 'jobs', 100)
    for i = 1, 100 do assert.equal(tostring(200 + i), payloads[i]) end
    assert.equal('0', broker:redis_cli('EXISTS', broker:key('jobs', 'msg')))
  end)

  it('keeps exchanges, bindings and options', function()
    c:ok 'DECLARE exchange orders topic'
    c:ok 'DECLARE queue eu priority=strict ack-timeout=7s'
    c:ok 'BIND eu orders orders.eu.#'
    crash 'kill9_all'
    c:send 'PUB orders orders.eu.new 1\r\na\r\n'
    c:expect '^OK %x+ 1$'
    c:ok 'DECLARE queue eu priority=strict ack-timeout=7s'
    assert.matches('^ERR mismatch', c:request 'DECLARE queue eu priority=strict ack-timeout=8s')
  end)

  it('delivers again what was held for a moment, as if it had never been', function()
    c:ok 'DECLARE queue jobs'
    traffic.publish(c, 'jobs', 3)
    assert.equal(3, #c:get 'jobs max=3')
    crash 'kill9_all'
    traffic.expect_counts(c, 'jobs', { ready = 3, unacked = 0 })
    assert.equal(3, #traffic.take(c, 'jobs', 3))
  end)

  it('names what is held for long in the ledger, and counts the delivery after a crash', function()
    c:ok 'DECLARE queue jobs ack-timeout=1h'
    traffic.publish(c, 'jobs', 3)
    c:send 'GET jobs max=2\r\n'
    c:expect_line 'OK 2'
    local id = c:expect_msg().options.id
    c:expect_msg()
    assert(wait.poll(function() return broker:redis_cli('ZCARD', broker:key('jobs', 'unack')) == '2' end))
    assert.equal('1', broker:redis_cli('ZCARD', broker:key('jobs', 'ready')))
    assert.matches('^1 0 ?$', broker:redis_cli('HGET', broker:key('jobs', 'tries'), id))
    crash 'kill9_all'
    traffic.expect_counts(c, 'jobs', { ready = 3, unacked = 0 })
    c:send 'GET jobs max=3\r\n'
    c:expect_line 'OK 3'
    local first = c:expect_msg()
    assert.equal(id, first.options.id)
    assert.equal(1, first.attempt)
    assert.is_true(first.redelivered)
    for _ = 2, 3 do c:expect_msg() end
    local deliveries = {}
    for i, m in ipairs(c:peek 'jobs 10 state=unacked') do deliveries[i] = m.deliveries end
    assert.same({ 2, 2, 1 }, deliveries)
    c:ok 'ACK 1-3'
    assert.equal(0, sum(broker, 'jobs'))
    assert.equal('0', broker:redis_cli('EXISTS', broker:key('jobs', 'tries')))
  end)

  it('keeps deliveries, failures and reason of what has failed', function()
    c:ok 'DECLARE queue jobs'
    traffic.publish(c, 'jobs', 1)
    assert.equal(1, #c:get 'jobs')
    c:ok 'NACK 1 delay=0'
    assert(wait.poll(function()
      return broker:redis_cli('HVALS', broker:key('jobs', 'tries')):find '^1 1 nack' ~= nil
    end))
    crash 'kill9_all'
    local message = c:peek('jobs')[1]
    assert.equal(1, message.deliveries)
    assert.equal(1, message.failures)
    assert.equal('nack', message.reason)
  end)

  it('keeps delayed messages, which come when they are due', function()
    c:ok 'DECLARE queue jobs'
    c:ok('PUB - jobs delay=1h', 'late')
    c:ok('PUB - jobs delay=1500ms', 'soon')
    assert.equal('2', broker:redis_cli('ZCARD', broker:key('jobs', 'delayed')))
    crash 'kill9_all'
    local payloads = traffic.take(c, 'jobs', 1)
    assert.equal('soon', payloads[1])
    traffic.expect_counts(c, 'jobs', { ready = 0, delayed = 1 })
  end)

  it('keeps the delay of what was returned with one, also if it had one before', function()
    c:ok 'DECLARE queue jobs'
    c:ok('PUB - jobs delay=1ms', 'a')
    assert.equal(1, #c:get 'jobs wait=10s')
    c:ok 'NACK 1 delay=1h'
    assert(wait.poll(function()
      local text = broker:redis_cli('ZRANGE', broker:key('jobs', 'delayed'), 0, -1, 'WITHSCORES')
      local due = tonumber(text:match '(%d+)$')
      return due and due > (os.time() + 1800) * 1000
    end))
    crash 'kill9_all'
    traffic.expect_counts(c, 'jobs', { ready = 0, delayed = 1 })
  end)

  it('keeps buried messages, and KICK makes them ready', function()
    c:ok 'DECLARE queue jobs'
    traffic.publish(c, 'jobs', 4)
    assert.equal(4, #c:get 'jobs max=4')
    c:ok 'NACK 1-4 dead'
    assert(wait.poll(function() return broker:redis_cli('ZCARD', broker:key('jobs', 'buried')) == '4' end))
    crash 'kill9_all'
    traffic.expect_counts(c, 'jobs', { buried = 4 })
    assert.equal('3', c:ok 'KICK jobs 3')
    assert.same({ '1', '2', '3' }, traffic.take(c, 'jobs', 3))
    traffic.expect_counts(c, 'jobs', { buried = 1 })
  end)

  it('writes a dead-lettered copy before it removes the message', function()
    c:ok 'DECLARE queue dead'
    c:ok 'DECLARE queue jobs dead-letter=-/dead'
    traffic.publish(c, 'jobs', 50)
    assert.equal(50, #c:get 'jobs max=50')
    c:send 'NACK 1-50 dead\r\n'
    crash 'kill9_all'
    local jobs, dead = c:stats 'jobs', c:stats 'dead'
    assert.is_true(jobs.ready + jobs.buried + dead.ready >= 50)
    local seen = {}
    for _, queue in ipairs { 'jobs', 'dead' } do
      local n = c:stats(queue).ready
      for _, payload in ipairs(traffic.take(c, queue, n)) do seen[payload] = true end
    end
    for i = 1, 50 do assert.is_true(seen[tostring(i)], 'lost ' .. i) end
  end)

  it('writes nothing of what a consumer acknowledges at once', function()
    c:ok 'DECLARE queue jobs'
    local publisher, redis = broker:connect(), broker:redis_pid()
    local function store() return c:document('STATS').store end
    local before = store().elided
    -- While Redis stands still with one message, all others are acknowledged.
    os.execute('kill -STOP ' .. redis)
    publisher:send 'PUB - jobs 1\r\na\r\n'
    assert(wait.poll(function() return store().pending_requests > 0 end))
    c:ok 'SUB jobs s ack=auto'
    publisher:send(('PUB - jobs 1\r\na\r\n'):rep(1000))
    for _ = 1, 1001 do c:expect_msg() end
    os.execute('kill -CONT ' .. redis)
    for _ = 1, 1001 do publisher:expect '^OK %x+ 1$' end
    assert.equal(before + 1000, store().elided)
    -- The first was written; its removal may still be under way.
    assert(wait.poll(function()
      return broker:redis_cli('EXISTS', broker:key('jobs', 'msg'), broker:key('jobs', 'ready')) == '0'
    end))
  end)

  it('removes an id without a body, which a crash can leave', function()
    c:ok 'DECLARE queue jobs'
    for set, score in pairs { ready = 0, delayed = 1, unack = 1, buried = 1 } do
      broker:redis_cli('ZADD', broker:key('jobs', set), score, ('ffff%012x'):format(#set))
    end
    crash 'kill9_all'
    traffic.publish(c, 'jobs', 3)
    assert.equal(3, #traffic.take(c, 'jobs', 3))
    c:ok 'KICK jobs'
    assert(wait.poll(function() return sum(broker, 'jobs') == 0 end))
    traffic.expect_counts(c, 'jobs', { ready = 0, delayed = 0, unacked = 0, buried = 0 })
  end)

  it('buries a message whose body cannot be read, and goes on with the others', function()
    c:ok 'DECLARE queue jobs'
    traffic.publish(c, 'jobs', 5)
    local id = broker:redis_cli('ZRANGE', broker:key('jobs', 'ready'), 2, 2)
    assert.equal('0', broker:redis_cli('HSET', broker:key('jobs', 'msg'), id, 'no MessagePack'))
    crash 'kill9_all'
    assert.same({ '1', '2', '4', '5' }, traffic.take(c, 'jobs', 4))
    assert(wait.poll(function() return broker:redis_cli('ZCARD', broker:key('jobs', 'buried')) == '1' end))
    assert.equal('no MessagePack', broker:redis_cli('HGET', broker:key('jobs', 'msg'), id))
    c:ok 'KICK jobs'
    traffic.publish(c, 'jobs', 2)
    assert.equal(2, #traffic.take(c, 'jobs', 2))
    crash 'kill9_all'
    c:ok 'KICK jobs'
    assert.equal('no MessagePack', broker:redis_cli('HGET', broker:key('jobs', 'msg'), id))
  end)

  it('is gone from Redis when it is deleted during traffic', function()
    c:ok 'DECLARE queue jobs'
    local publisher = broker:connect()
    local lines = {}
    for i = 1, 3000 do lines[i] = ('PUB - jobs 3\r\n%03d\r\n'):format(i % 1000) end
    publisher:send(table.concat(lines, '', 1, 1500))
    c:ok 'SUB jobs s prefetch=100'
    c:expect_msg()
    publisher:send('DELETE queue jobs\r\n' .. table.concat(lines, '', 1501, 3000) .. 'PING\r\n')
    local confirmed, unrouted = 0, 0
    for _ = 1, 3001 do
      local queues = publisher:expect '^OK ?%x* ?(%d*)$'
      if queues == '1' then confirmed = confirmed + 1 end
      if queues == '0' then unrouted = unrouted + 1 end
    end
    assert.equal(1500, confirmed)
    assert.equal(1500, unrouted)
    publisher:expect_line 'OK'
    assert.equal('', broker:redis_cli('KEYS', broker:key('jobs', '*')))
    publisher:ok 'DECLARE queue jobs'
    traffic.publish(publisher, 'jobs', 10)
    assert.equal(10, #traffic.take(publisher, 'jobs', 10))
  end)

  it('refuses a second broker on its directory with one clear line', function()
    local command = ('%s serve --listen 127.0.0.1:0 --data %s --rules rules 2>&1'):format(Broker.binary(), broker.data)
    local output, status = shell.run(command)
    assert.equal(1, status)
    local lines = {}
    for line in output:gmatch '[^\n]+' do lines[#lines + 1] = line end
    assert.equal(1, #lines, output)
    assert.matches('^tidemq: .*' .. broker.data:gsub('%p', '%%%0'), lines[1])
    c:ok 'DECLARE queue jobs'
  end)

  it('has the layout in Redis that docs/redis.md tells', function()
    c:ok 'DECLARE exchange orders topic'
    c:ok 'DECLARE queue jobs priority=strict'
    c:ok 'BIND jobs orders eu.#'
    c:ok('PUB orders eu.new pri=7 ttl=1h h:tier=gold', 'bad')
    c:ok('PUB orders eu.new delay=1h', 'later')
    local definitions = ('{tide}:%s:'):format(broker.vhost)
    assert.equal('1', broker:redis_cli('SISMEMBER', '{tide}:vhosts', broker.vhost))
    assert.matches('^orders\n', broker:redis_cli('HGETALL', definitions .. 'exchanges'))
    assert.matches('^jobs\n.*priority=strict', broker:redis_cli('HGETALL', definitions .. 'queues'))
    assert.equal('1', broker:redis_cli('SCARD', definitions .. 'bindings'))
    local id = broker:redis_cli('ZRANGE', broker:key('jobs', 'ready'), 0, -1)
    assert.matches('^%x+$', id)
    assert.equal(16, #id)
    assert.equal('-7', broker:redis_cli('ZSCORE', broker:key('jobs', 'ready'), id))
    local expires = tonumber(broker:redis_cli('ZSCORE', broker:key('jobs', 'expiry'), id))
    assert.is_true(math.abs(expires / 1000 - os.time() - 3600) < 60)
    assert.equal('2', broker:redis_cli('HLEN', broker:key('jobs', 'msg')))
    assert.equal('1', broker:redis_cli('ZCARD', broker:key('jobs', 'delayed')))
    local body = broker:redis_cli('EVAL',
      "return cjson.encode(cmsgpack.unpack(redis.call('HGET', KEYS[1], ARGV[1])))", 1, broker:key('jobs', 'msg'), id)
    local fields = require('dkjson').decode(body)
    assert.equal(1, fields[1])
    assert.equal('orders', fields[2])
    assert.equal('eu.new', fields[3])
    assert.equal(7, fields[7])
    assert.same({ tier = 'gold' }, fields[9])
    assert.equal('bad', fields[10])
  end)
end)
