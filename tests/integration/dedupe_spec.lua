-- PUB id=: a publish that is repeated is stored once, whatever happens in between.
local Broker = require 'support.broker'
local traffic = require 'support.traffic'
local wait = require 'support.wait'

local pub = traffic.with_id

describe('a publish with an id', function()
  local broker, c

  setup(function() broker = Broker.start() end)
  teardown(function() broker:expect_clean_stop() end)

  before_each(function() c = broker:connect() end)
  after_each(function() c:close() end)

  it('is stored once, and answered with the first', function()
    c:ok 'DECLARE queue once'
    c:send(pub('once', 'order-1'))
    local id = c:expect '^OK (%x+) 1$'
    c:send(pub('once', 'order-1', 'other bytes') .. pub('once', 'order-2'))
    c:expect_line('OK ' .. id .. ' 1 duplicate')
    c:expect '^OK %x+ 1$'
    local payloads = traffic.take(c, 'once', 2)
    assert.same({ 'order-1', 'order-2' }, payloads)
    -- That it is gone does not mean that it was never seen.
    c:send(pub('once', 'order-1'))
    c:expect_line('OK ' .. id .. ' 1 duplicate')
    local stats = c:stats 'once'
    assert.equal(2, stats.published)
    assert.equal(2, stats.duplicates)
    assert.equal(2, stats.dedupe_ids)
    assert.equal(0, stats.ready)
  end)

  it('is told from another by each byte of the id', function()
    c:ok 'DECLARE queue bytes'
    local longest = ('x'):rep(128)
    local ids = { 'a', 'A', 'a%20', 'a%00', '%00', '-', 'é', '%ff%0d%0a', 'a=b', longest, longest:sub(2) .. 'y' }
    for _, id in ipairs(ids) do
      c:send(pub('bytes', id) .. pub('bytes', id))
      local first = c:expect '^OK (%x+) 1$'
      c:expect_line('OK ' .. first .. ' 1 duplicate')
    end
    assert.equal('11', broker:redis_cli('ZCARD', broker:key('bytes', 'dedupe')))
    assert.matches('^ERR syntax id= has 0 bytes; expected 1%-128$', c:request('PUB - bytes id=', 'x'))
    assert.matches('^ERR too%-long id= has 129 bytes', c:request('PUB - bytes id=' .. longest .. 'x', 'x'))
    traffic.expect_counts(c, 'bytes', { ready = 11 })
  end)

  it('needs no answer, with quiet', function()
    c:ok 'DECLARE queue silent'
    c:send('PUB - silent id=a quiet 1\r\nx\r\nPUB - silent id=a quiet 1\r\nx\r\n')
    c:expect_nothing()
    traffic.expect_counts(c, 'silent', { ready = 1, duplicates = 1 })
  end)

  it('is found whichever shard it went to', function()
    c:ok 'DECLARE queue spread shards=8 sharding=round_robin'
    local ids = {}
    for i = 1, 100 do
      c:send(pub('spread', 'k' .. i))
      ids[i] = c:expect '^OK (%x+) 1$'
    end
    for i = 1, 100 do
      c:send(pub('spread', 'k' .. i))
      c:expect_line('OK ' .. ids[i] .. ' 1 duplicate')
    end
    traffic.expect_counts(c, 'spread', { ready = 100 })
  end)

  it('is a duplicate when all queues had it, and else goes to those that had not', function()
    c:ok 'DECLARE exchange news fanout'
    for _, queue in ipairs { 'left', 'right', 'late' } do c:ok('DECLARE queue ' .. queue) end
    c:ok 'BIND left news -'
    c:ok 'BIND right news -'
    local function publish()
      c:send 'PUB news - id=n1 1\r\nx\r\n'
      return c:expect '^OK (%x+ .*)$'
    end
    local first = publish()
    assert.matches('^%x+ 2$', first)
    assert.equal(first .. ' duplicate', publish())
    c:ok 'BIND late news -'
    local second = publish()
    assert.matches('^%x+ 3$', second)
    assert.not_equal(first:match '^%x+', second:match '^%x+')
    assert.equal(first:match '^%x+' .. ' 3 duplicate', publish())
    for _, queue in ipairs { 'left', 'right', 'late' } do traffic.expect_counts(c, queue, { ready = 1 }) end
    -- The same id elsewhere is another one.
    assert.matches('^OK %x+ 1$', c:request('PUB - left id=n2', 'x'))
    assert.matches('^OK %x+ 1$', c:request('PUB - right id=n2', 'x'))
  end)

  it('that no queue takes is not remembered', function()
    assert.matches('^OK %x+ 0$', c:request('PUB - nowhere id=a', 'x'))
    c:ok 'DECLARE queue nowhere'
    assert.matches('^OK %x+ 1$', c:request('PUB - nowhere id=a', 'x'))
  end)

  it('keeps its delay and ttl, and what a repetition says of them does not count', function()
    c:ok 'DECLARE queue later'
    assert.matches('^OK %x+ 1$', c:request('PUB - later id=a delay=1h ttl=1h', 'x'))
    assert.matches('^OK %x+ 1 duplicate$', c:request('PUB - later id=a', 'x'))
    traffic.expect_counts(c, 'later', { ready = 0, delayed = 1 })
  end)

  it('is forgotten when the window of its queue is over', function()
    c:ok 'DECLARE queue short dedupe=300ms'
    assert.matches('^OK %x+ 1$', c:request('PUB - short id=a', 'x'))
    assert.matches('^OK %x+ 1 duplicate$', c:request('PUB - short id=a', 'x'))
    assert(wait.poll(function() return c:request('PUB - short id=a', 'x'):match '^OK %x+ 1$' end))
    traffic.expect_counts(c, 'short', { ready = 2 })
    traffic.expect_counts(c, 'short', { dedupe_ids = 0 })
    assert(wait.poll(function() return broker:redis_cli('EXISTS', broker:key('short', 'dedupe')) == '0' end))
  end)

  it('is not looked at by a queue with dedupe=0', function()
    c:ok 'DECLARE queue never dedupe=0'
    for _ = 1, 2 do assert.matches('^OK %x+ 1$', c:request('PUB - never id=a', 'x')) end
    assert.equal('0', broker:redis_cli('EXISTS', broker:key('never', 'dedupe')))
    assert.matches('^ERR syntax dedupe=1y: expected a duration up to 1d', c:request 'DECLARE queue bad dedupe=1y')
    assert.matches('^ERR syntax dedupe=2d', c:request 'DECLARE queue bad dedupe=2d')
    assert.matches('^ERR mismatch', c:request 'DECLARE queue never dedupe=1s')
  end)

  it('works in a queue that is in memory alone', function()
    c:ok 'DECLARE queue light durable=0'
    c:send(pub('light', 'a') .. pub('light', 'a'))
    local id = c:expect '^OK (%x+) 1$'
    c:expect_line('OK ' .. id .. ' 1 duplicate')
    assert.equal('0', broker:redis_cli('EXISTS', broker:key('light', 'dedupe')))
  end)

  it('is remembered through a PURGE, and not through a DELETE', function()
    c:ok 'DECLARE queue gone'
    c:send(pub('gone', 'a') .. pub('gone', 'b') .. 'PURGE gone\r\n')
    c:expect '^OK %x+ 1$'
    c:expect '^OK %x+ 1$'
    c:expect_line 'OK 2'
    assert.matches('^OK %x+ 1 duplicate$', c:request('PUB - gone id=a', 'x'))
    assert.equal('2', broker:redis_cli('ZCARD', broker:key('gone', 'dedupe')))
    c:send(pub('gone', 'c') .. 'DELETE queue gone\r\nDECLARE queue gone\r\n' .. pub('gone', 'a') .. pub('gone', 'c'))
    c:expect '^OK %x+ 1$'
    c:expect_line 'OK'
    c:expect_line 'OK'
    for _ = 1, 2 do c:expect '^OK %x+ 1$' end
    traffic.expect_counts(c, 'gone', { ready = 2, dedupe_ids = 2 })
    assert.equal('2', broker:redis_cli('ZCARD', broker:key('gone', 'dedupe')))
  end)

  it('leaves a queue of many ids that is deleted bit by bit', function()
    c:ok 'DECLARE queue many'
    for from = 1, 20000, 2000 do
      local lines = {}
      for i = from, from + 1999 do lines[#lines + 1] = ('PUB - many id=%d quiet 0\r\n\r\n'):format(i) end
      c:send(table.concat(lines))
      c:expect_nothing()
    end
    traffic.expect_counts(c, 'many', { dedupe_ids = 20000 })
    local function bytes()
      return c:document('STATS').dedupe_bytes
    end
    local before = bytes()
    c:ok 'DELETE queue many'
    assert(wait.poll(function() return bytes() < before - 20000 * 50 end))
  end)

  it('is not a duplicate of a message that was dead-lettered', function()
    c:ok 'DECLARE queue work retry=none dead-letter=-/morgue'
    c:ok 'DECLARE queue morgue'
    for _ = 1, 2 do
      c:send(pub('morgue', 'a'))
      c:expect '^OK %x+ 1'
      c:send(pub('work', 'a'))
      c:expect '^OK %x+ 1'
    end
    c:ok('NACK ' .. c:get('work')[1].tag .. ' dead')
    traffic.expect_counts(c, 'morgue', { ready = 2 })
  end)

  it('is explained, and nothing is remembered', function()
    c:ok 'DECLARE queue shown dedupe=1m'
    for _ = 1, 2 do
      local doc = c:document 'EXPLAIN - shown id=a%20b'
      assert.equal('a b', doc.dedupe_id)
      assert.equal('new', doc.queues[1].dedupe)
      assert.equal(60000, doc.queues[1].dedupe_window)
      assert.is_nil(doc.queues[1].first)
    end
    c:send(pub('shown', 'a%20b'))
    local id = c:expect '^OK (%x+) 1$'
    local doc = c:document 'EXPLAIN - shown id=a%20b'
    assert.equal('duplicate', doc.queues[1].dedupe)
    assert.equal(id, doc.queues[1].first)
    assert.is_nil(c:document('EXPLAIN - shown').queues[1].dedupe)
    c:ok 'DECLARE queue blind dedupe=0'
    assert.equal('off', c:document('EXPLAIN - blind id=a').queues[1].dedupe)
  end)

  it('can be sent from the command line', function()
    c:ok 'DECLARE queue shell'
    local output, status = broker:cli('pub', '-', 'shell', 'hello', '--id', 'job 7')
    assert.equal(0, status)
    local id = output:match '^published (%x+) to 1 queue\n$'
    assert.is_truthy(id, output)
    output, status = broker:cli('pub', '-', 'shell', 'hello', '--id', 'job 7')
    assert.same({ 'duplicate of ' .. id .. ' in 1 queue\n', 0 }, { output, status })
    output = broker:cli('pub', '-', 'shell', 'hello', '--id', 'job 7', '--json')
    assert.equal(('{"id":"%s","queues":1,"duplicate":true}\n'):format(id), output)
    assert.matches('duplicate', (broker:cli('explain', '-', 'shell', '--id', 'job 7')))
    local _, refused = broker:cli('pub', '-', 'shell', 'hello', '--id', 'a', '--count', '2')
    assert.equal(2, refused)
    traffic.expect_counts(c, 'shell', { ready = 1 })
  end)
end)

describe('a limit of the ids that are remembered', function()
  local broker
  teardown(function() if broker then broker:expect_clean_stop() end end)

  it('refuses publishes with a new id, and no others', function()
    broker = Broker.start { args = { '--max-dedupe-bytes', '64K', '--dedupe-window', '2s' } }
    local c = broker:connect()
    c:ok 'DECLARE queue q'
    local taken, refusal = 0, nil
    repeat
      local line = c:request('PUB - q id=n' .. taken, 'x')
      if line:find '^OK' then taken = taken + 1 else refusal = line end
    until refusal
    assert.matches('^ERR full remembered publish ids fill their limit of %d+ KiB.*%-%-max%-dedupe%-bytes', refusal)
    assert(taken > 200)
    traffic.expect_counts(c, 'q', { ready = taken })
    assert.equal('full', c:document('EXPLAIN - q id=other').queues[1].dedupe)
    assert.matches('^OK %x+ 1$', c:request('PUB - q', 'x'))
    assert.matches('^OK %x+ 1 duplicate$', c:request('PUB - q id=n' .. taken - 1, 'x'))
    assert(wait.poll(function() return c:request('PUB - q id=n' .. taken, 'x'):find '^OK' end, 20))
  end)
end)

describe('a publish id outlives', function()
  local broker, c

  setup(function() broker = Broker.start() end)
  teardown(function() broker:destroy() end)
  before_each(function() c = broker:enter_vhost() end)
  after_each(function() c:close() end)

  local function restart_after(how)
    c:close()
    c = broker:restart_after(how)
  end

  local ends = { ['kill -9'] = 'kill9', ['kill -9 of Redis too'] = 'kill9_all', ['a stop'] = 'expect_clean_stop' }
  for name, how in pairs(ends) do
    it(name, function()
      c:ok 'DECLARE queue q shards=3 sharding=round_robin'
      local ids = {}
      for i = 1, 9 do
        c:send(pub('q', 'k' .. i))
        ids[i] = c:expect '^OK (%x+) 1$'
      end
      traffic.take(c, 'q', 4)
      restart_after(how)
      for i = 1, 9 do
        c:send(pub('q', 'k' .. i))
        c:expect_line('OK ' .. ids[i] .. ' 1 duplicate')
      end
      traffic.expect_counts(c, 'q', { ready = 5, dedupe_ids = 9 })
    end)
  end

  it('kill -9 when its message was acknowledged before it was written', function()
    c:ok 'DECLARE queue q'
    local pid = broker:redis_pid()
    local function store() return c:document('STATS').store end
    local elided = store().elided
    -- Redis stands still with one message, and all others are acknowledged meanwhile.
    os.execute('kill -STOP ' .. pid)
    local publisher, consumer = broker:connect(), broker:connect()
    publisher:send(pub('q', 'warm'))
    assert(wait.poll(function() return store().pending_requests > 0 end))
    consumer:ok 'SUB q s ack=auto'
    consumer:expect_msg()
    local lines = {}
    for i = 1, 50 do lines[i] = pub('q', 'k' .. i) end
    publisher:send(table.concat(lines))
    for _ = 1, 50 do consumer:expect_msg() end
    os.execute('kill -CONT ' .. pid)
    publisher:expect '^OK %x+ 1$'
    local ids = {}
    for i = 1, 50 do ids[i] = publisher:expect '^OK (%x+) 1$' end
    assert.equal(elided + 50, store().elided)
    publisher:close()
    consumer:close()
    restart_after 'kill9_all'
    for i = 1, 50 do
      c:send(pub('q', 'k' .. i))
      c:expect_line('OK ' .. ids[i] .. ' 1 duplicate')
    end
    traffic.expect_counts(c, 'q', { ready = 0, dedupe_ids = 51 })
  end)

  it('a restart until its window is over, and leaves Redis after that', function()
    c:ok 'DECLARE queue q dedupe=1s'
    c:ok 'DECLARE queue big dedupe=1s'
    local lines = {}
    for i = 1, 9000 do lines[i] = ('PUB - big id=%d quiet 0\r\n\r\n'):format(i) end
    c:send(table.concat(lines))
    c:send(pub('q', 'a'))
    c:expect '^OK %x+ 1$'
    c:expect_nothing()
    restart_after 'kill9'
    assert(wait.poll(function() return c:request('PUB - q id=a', 'x'):match '^OK %x+ 1$' end))
    assert(wait.poll(function()
      return broker:redis_cli('EXISTS', broker:key('q', 'dedupe'), broker:key('big', 'dedupe')) == '0'
    end))
    traffic.expect_counts(c, 'big', { ready = 9000, dedupe_ids = 0 })
  end)

  it('reads more ids than one request brings', function()
    c:ok 'DECLARE queue q'
    for from = 1, 10000, 2500 do
      local lines = {}
      for i = from, from + 2499 do lines[#lines + 1] = ('PUB - q id=%d quiet 0\r\n\r\n'):format(i) end
      c:send(table.concat(lines))
      c:expect_nothing()
    end
    restart_after 'kill9_all'
    traffic.expect_counts(c, 'q', { ready = 10000, dedupe_ids = 10000 })
    local lines = {}
    for i = 1, 10000 do lines[i] = ('PUB - q id=%d quiet 0\r\n\r\n'):format(i) end
    c:send(table.concat(lines))
    c:expect_nothing()
    traffic.expect_counts(c, 'q', { ready = 10000, duplicates = 10000 })
  end)

  it('a member of the set that nobody can read', function()
    c:ok 'DECLARE queue q'
    c:send(pub('q', 'a'))
    c:expect '^OK %x+ 1$'
    for _, tail in ipairs { '', ' ', '+ a', '-1 a' } do
      broker:redis_cli('ZADD', broker:key('q', 'dedupe'), '99999999999999', '687f6b32f9000000' .. tail)
    end
    restart_after 'kill9'
    broker:expect_log 'a member of a dedupe set cannot be read: 687f6b32f9000000%-1 a'
    assert.matches('duplicate$', c:request('PUB - q id=a', 'x'))
    traffic.expect_counts(c, 'q', { dedupe_ids = 1 })
  end)
end)

describe('a repetition whose first is not durable yet', function()
  local broker, redis, c

  before_each(function()
    broker = Broker.start { redis = {} }
    redis = broker.redis
    c = broker:connect()
    c:ok 'DECLARE queue q'
  end)

  after_each(function()
    broker:destroy()
  end)

  it('is confirmed with it, and not before', function()
    local pid = redis:pid()
    local other = broker:connect()
    redis:signal('STOP', pid)
    c:send(pub('q', 'a'))
    other:send(pub('q', 'a'):rep(3))
    other:send '@1 OPEN\r\n@1 PING\r\n'
    other:expect_line '@1 OK'
    other:expect_line '@1 OK'
    redis:signal('CONT', pid)
    local id = c:expect '^OK (%x+) 1$'
    for _ = 1, 3 do other:expect_line('OK ' .. id .. ' 1 duplicate') end
    traffic.expect_counts(c, 'q', { ready = 1 })
  end)

  -- Redis stands still with a first message: the others are not even sent to it.
  local function acknowledge_unwritten(count)
    local pid = redis:pid()
    redis:signal('STOP', pid)
    local publisher, consumer = broker:connect(), broker:connect()
    publisher:send(pub('q', 'warm'))
    assert(wait.poll(function() return c:document('STATS').store.pending_requests > 0 end))
    consumer:ok 'SUB q s'
    consumer:expect_msg()
    for i = 1, count do publisher:send(pub('q', 'k' .. i)) end
    for _ = 1, count do consumer:expect_msg() end
    consumer:send(('ACK 2-%d\r\n@1 OPEN\r\n@1 PING\r\n'):format(count + 1))
    consumer:expect_line '@1 OK'
    consumer:expect_line '@1 OK'
    return publisher, consumer, pid
  end

  it('lets its message be acknowledged when the id is written', function()
    local publisher, consumer, pid = acknowledge_unwritten(9)
    redis:signal('CONT', pid)
    consumer:expect_line 'OK 9'
    -- Whatever was answered OK is known after a kill.
    broker:kill9()
    for _ = 1, 10 do publisher:expect '^OK %x+ 1$' end
    broker:run()
    c = broker:connect()
    for i = 1, 9 do assert.matches('duplicate$', c:request('PUB - q id=k' .. i, 'x')) end
    traffic.expect_counts(c, 'q', { ready = 1 })
  end)

  it('has its ack refused with the id', function()
    local publisher, consumer, pid = acknowledge_unwritten(3)
    local writer = io.popen(('redis-cli -s %s CONFIG SET maxmemory 1'):format(redis.path))
    redis:signal('CONT', pid)
    writer:read 'a'
    writer:close()
    publisher:expect '^[OE]'
    local answer = consumer:expect '^.*$'
    if answer ~= 'OK 3' then assert.matches('^ERR store OOM', answer) end
    for _ = 1, 3 do publisher:expect(answer == 'OK 3' and '^OK %x+ 1$' or '^ERR store OOM') end
    redis:cli('CONFIG', 'SET', 'maxmemory', '0')
    assert(wait.poll(function() return c:request('PUB - q', 'x'):find '^OK' end))
    local again = c:request('PUB - q id=k1', 'x')
    assert.matches(answer == 'OK 3' and 'duplicate$' or '^OK %x+ 1$', again)
  end)

  it('fails with it, and then the id is free', function()
    local pid = redis:pid()
    redis:signal('STOP', pid)
    c:send(pub('q', 'warm') .. 'PING\r\n')
    local writer = io.popen(('redis-cli -s %s CONFIG SET maxmemory 1'):format(redis.path))
    redis:signal('CONT', pid)
    writer:read 'a'
    writer:close()
    c:drain_until '^OK$'
    c:send(pub('q', 'a'):rep(4))
    for _ = 1, 4 do c:expect '^ERR store .*OOM' end
    traffic.expect_counts(c, 'q', { dedupe_ids = 1 })
    redis:cli('CONFIG', 'SET', 'maxmemory', '0')
    assert(wait.poll(function() return c:request('PUB - q id=a', 'x'):find '^OK %x+ 1$' end))
    assert.matches('duplicate$', c:request('PUB - q id=a', 'x'))
  end)

  it('is stored once though the connection to Redis is cut at any time', function()
    local publishers = { broker:connect(), broker:connect() }
    local first = {}
    for round = 1, 10 do
      local lines = {}
      for i = 1, 40 do lines[i] = pub('q', ('r%d-%d'):format(round, i)) end
      for _, p in ipairs(publishers) do p:send(table.concat(lines)) end
      redis:cli('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
      for _, p in ipairs(publishers) do
        for i = 1, 40 do
          local id = p:expect('^OK (%x+) 1', 30)
          local name = ('r%d-%d'):format(round, i)
          assert.equal(first[name] or id, id)
          first[name] = id
        end
      end
    end
    local payloads = traffic.take(c, 'q', 400)
    local seen = {}
    for _, name in ipairs(payloads) do
      assert.is_nil(seen[name], name)
      seen[name] = true
    end
    traffic.expect_counts(c, 'q', { ready = 0, unacked = 0, dedupe_ids = 400 })
    assert.equal('400', redis:cli('ZCARD', broker:key('q', 'dedupe')))
  end)
end)

-- Publishers that repeat what was not confirmed, while the broker or Redis dies under
-- them at random: in the end each message is there, and there once.
describe('publishers that repeat', function()
  local broker
  after_each(function() broker:destroy() end)

  local seed = require 'support.seed'

  it('lose nothing and double nothing, seed ' .. seed, function()
    math.randomseed(seed)
    broker = Broker.start { args = { '--window-messages', '16', '--fsync', 'no' } }
    local total, chunk = 1200, 60
    local confirmed = {} -- publish id -> message id
    local c = broker:connect()
    c:ok 'DECLARE queue q shards=3 sharding=round_robin'
    local function crash()
      c:close()
      broker[math.random(2) == 1 and 'kill9' or 'kill9_all'](broker)
      broker:run()
      c = broker:connect()
    end
    local function read(ids, count)
      for i = 1, count do
        local id, rest = c:expect('^OK (%x+) 1(.*)$', 30)
        local name = ids[i]
        if confirmed[name] then assert.same({ confirmed[name], ' duplicate' }, { id, rest }) end
        confirmed[name] = id
      end
    end
    for from = 1, total, chunk do
      local pending = {}
      for i = from, from + chunk - 1 do pending[#pending + 1] = 'm' .. i end
      while #pending > 0 do
        -- Some that are confirmed are repeated too.
        for _ = 1, 10 do pending[#pending + 1] = 'm' .. math.random(from + chunk - 1) end
        local lines = {}
        for i, name in ipairs(pending) do lines[i] = pub('q', name) end
        c:send(table.concat(lines))
        local fate = math.random(4)
        if fate == 1 then
          read(pending, math.random(0, #pending))
          crash()
        elseif fate == 2 then
          -- It may be on its way down or up from the last time.
          wait.poll(function() return (pcall(broker.kill9_redis, broker)) end)
          read(pending, #pending)
        else
          read(pending, #pending)
        end
        local left = {}
        for i = from, from + chunk - 1 do
          if not confirmed['m' .. i] then left[#left + 1] = 'm' .. i end
        end
        pending = left
      end
    end
    crash()
    local payloads, deliveries = traffic.take(c, 'q', total, 60)
    local seen = {}
    for i, name in ipairs(payloads) do
      assert.is_nil(seen[name], name)
      seen[name] = true
      assert.equal(confirmed[name], deliveries[i].options.id)
    end
    traffic.expect_counts(c, 'q', { ready = 0, unacked = 0, delayed = 0, dedupe_ids = total })
  end)
end)

-- Consumers take messages away before they are written, Redis refuses and drops the
-- connection, the broker dies: what was answered OK once is a duplicate ever after.
describe('an id that was confirmed', function()
  local broker, redis
  after_each(function()
    broker:destroy()
  end)

  local seed = require 'support.seed'

  it('is never free again, seed ' .. seed, function()
    math.randomseed(seed)
    broker = Broker.start { redis = {}, args = { '--window-messages', '16' } }
    redis = broker.redis
    local confirmed, refused = {}, 0
    local c, consumer
    local function connect()
      c = broker:connect()
      consumer = broker:connect()
      consumer:send(math.random(2) == 1 and 'SUB q s ack=auto\r\n' or 'SUB q s\r\n')
      consumer:expect_line 'OK'
    end
    local function publish(names)
      local lines = {}
      for i, name in ipairs(names) do lines[i] = pub('q', name) end
      c:send(table.concat(lines))
    end
    local function read(names)
      for _, name in ipairs(names) do
        local line = c:read_line(30)
        local id, rest = line:match '^OK (%x+) 1(.*)$'
        if confirmed[name] then
          assert.same({ confirmed[name], ' duplicate' }, { id, rest }, line)
        elseif id then
          confirmed[name] = id
        else
          assert.matches('^ERR store', line)
          refused = refused + 1
        end
      end
    end
    broker:connect():ok 'DECLARE queue q shards=2 sharding=random'
    connect()
    for _ = 1, 60 do
      local names = {}
      for i = 1, 30 do names[i] = 'n' .. math.random(900) end
      local fate = math.random(8)
      if fate == 1 then redis:cli('CONFIG', 'SET', 'maxmemory', '1') end
      publish(names)
      if fate == 2 then redis:cli('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes') end
      if fate == 3 then
        c:close()
        consumer:close()
        broker:kill9()
        redis:cli('CONFIG', 'SET', 'maxmemory', '0')
        broker:run()
        connect()
      else
        read(names)
      end
      if fate == 4 then redis:cli('CONFIG', 'SET', 'maxmemory', '0') end
    end
    redis:cli('CONFIG', 'SET', 'maxmemory', '0')
    c:close()
    consumer:close()
    broker:kill9()
    broker:run()
    c = broker:connect()
    local names = {}
    for name in pairs(confirmed) do names[#names + 1] = name end
    assert(#names > 100)
    publish(names)
    read(names)
  end)
end)

describe('a filter', function()
  local broker
  teardown(function() if broker then broker:expect_clean_stop() end end)

  it('gives messages an id, and its copies are told apart', function()
    broker = Broker.start { rules = { ['filter/10-id.lua'] = [[
      return { match = { exchange = "orders" }, publish = function(msg)
        msg.dedupe_id = msg.headers.order
        msg:copy { exchange = "", key = "q" }
        msg:copy { exchange = "", key = "q" }
        msg:copy { exchange = "", key = "audit", dedupe_id = "" }
      end }
    ]] } }
    local c = broker:connect()
    c:ok 'DECLARE exchange orders fanout'
    for _, queue in ipairs { 'q', 'audit' } do c:ok('DECLARE queue ' .. queue) end
    c:ok 'BIND q orders -'
    for i = 1, 3 do
      assert.matches(i == 1 and '^OK %x+ 1$' or '^OK %x+ 1 duplicate$', c:request('PUB orders k h:order=7', 'x'))
    end
    -- The message and two copies, each once; a copy without an id each time.
    traffic.expect_counts(c, 'q', { ready = 3, dedupe_ids = 3, duplicates = 6 })
    traffic.expect_counts(c, 'audit', { ready = 3, dedupe_ids = 0 })
    local members = broker:redis_cli('ZRANGE', broker:key('q', 'dedupe'), 0, -1)
    assert.matches('^%x+ 7\n%x+%+1 7\n%x+%+2 7$', members)
    broker:kill9_all()
    broker:run()
    c = broker:connect()
    assert.matches('^OK %x+ 1 duplicate$', c:request('PUB orders k h:order=7', 'x'))
    traffic.expect_counts(c, 'q', { ready = 3, dedupe_ids = 3, duplicates = 3 })
    traffic.expect_counts(c, 'audit', { ready = 4 })
    local doc = c:document 'EXPLAIN orders k h:order=8'
    assert.equal('8', doc.dedupe_id)
    assert.same({ field = 'dedupe_id', from = '', to = '8' }, doc.filters[1].changes[1])
    assert.equal('new', doc.copies[1].queues[1].dedupe)
    assert.is_nil(doc.copies[3].queues[1].dedupe)
  end)
end)
