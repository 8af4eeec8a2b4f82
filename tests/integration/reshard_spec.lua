-- DECLARE queue ... reshard: another number of shards for a queue that is in use.
local Broker = require 'support.broker'
local traffic = require 'support.traffic'
local wait = require 'support.wait'

local KEYS = 7

describe('reshard', function()
  local broker, c

  setup(function() broker = Broker.start { args = { '--window-messages', '16', '--fsync', 'no' } } end)
  teardown(function() broker:destroy() end)
  before_each(function() c = broker:enter_vhost() end)
  after_each(function() c:close() end)

  local function declare(shards, options)
    return c:ok(('DECLARE queue q shards=%d sharding.by=k%s'):format(shards, options and ' ' .. options or ''))
  end

  local function reconnect()
    c:close()
    c = broker:connect()
  end

  local published -- per key: the number of the last one

  --- Messages `<key> <number>`, the numbers of each key counting up.
  local function make()
    local k = math.random(KEYS)
    published[k] = published[k] + 1
    return ('%d %d'):format(k, published[k]), 'h:k=' .. k
  end

  local function publish(count) assert.equal(count, traffic.publish(c, 'q', count, make)) end

  before_each(function()
    published = {}
    for k = 1, KEYS do published[k] = 0 end
  end)

  --- A book of what comes: the first deliveries of a key are in order.
  local function new_book() return { last = {}, seen = {}, count = 0 } end

  local function enter(book, payload)
    if book.seen[payload] then return false end
    book.seen[payload] = true
    book.count = book.count + 1
    local k, n = payload:match '^(%d+) (%d+)$'
    local last = book.last[k] or 0
    if tonumber(n) ~= last + 1 then error(('key %s: %s came after %d'):format(k, n, last), 2) end
    book.last[k] = tonumber(n)
    return true
  end

  local function total()
    local n = 0
    for k = 1, KEYS do n = n + published[k] end
    return n
  end

  --- Take so many messages: none twice, each key in order.
  local function take(book, count)
    for _, payload in ipairs((traffic.take(c, 'q', count))) do
      if not enter(book, payload) then error(payload .. ' came twice', 2) end
    end
  end

  for _, durable in ipairs { 'durable=1', 'durable=0' } do
    it('keeps the order of each key, up and down, with ' .. durable, function()
      local book = new_book()
      declare(1, durable)
      publish(100)
      for _, shards in ipairs { 8, 3, 64, 2, 1, 5 } do
        declare(shards, durable .. ' reshard')
        assert.equal(shards, c:stats('q').shards)
        publish(100)
        take(book, 40)
      end
      take(book, total() - book.count)
      assert.equal(700, book.count)
      traffic.expect_counts(c, 'q', { ready = 0, unacked = 0, mixed_shards = 0 })
      assert.same({}, c:get 'q')
    end)

    it('lets publishers and consumers go on, with ' .. durable, function()
      local book, shards = new_book(), { 5, 2, 64, 3, 1, 7 }
      local consumer = broker:connect()
      declare(4, durable)
      consumer:ok 'SUB q s prefetch=20'
      for round = 1, 30 do
        publish(40)
        if round % 5 == 0 then declare(shards[round // 5], durable .. ' reshard') end
        while book.count < total() - 30 do
          local msg = consumer:expect_msg()
          assert.is_true(enter(book, msg.payload), msg.payload .. ' came twice')
          consumer:send(('ACK %s quiet\r\n'):format(msg.tag))
        end
      end
      while book.count < total() do
        local msg = consumer:expect_msg()
        assert.is_true(enter(book, msg.payload), msg.payload .. ' came twice')
        consumer:send(('ACK %s quiet\r\n'):format(msg.tag))
      end
      traffic.expect_counts(c, 'q', { ready = 0, unacked = 0, mixed_shards = 0 })
      consumer:close()
    end)
  end

  it('keeps the order of what returns and of what expires', function()
    local book = new_book()
    declare(4)
    publish(60)
    local held = c:get 'q max=10'
    declare(9, 'reshard')
    publish(60)
    for i = 1, 20 do c:ok('PUB - q ttl=1 h:k=' .. i % KEYS + 1, 'late') end
    for _, m in ipairs(held) do c:ok(('NACK %s'):format(m.tag)) end
    take(book, total())
    assert.equal(120, book.count)
  end)

  it('routes by the key anew, also when the route is remembered', function()
    c:ok 'DECLARE exchange x fanout'
    c:ok 'DECLARE queue q'
    c:ok 'BIND q x -'
    local function round()
      for i = 1, 40 do c:ok('PUB x key' .. i, 'a') end
    end
    local function used()
      local n = 0
      for _, s in ipairs(c:stats('q').per_shard) do n = n + (s.ready > 0 and 1 or 0) end
      return n
    end
    round()
    assert.equal(1, used())
    c:ok 'DECLARE queue q shards=8 reshard'
    round()
    assert.is_true(used() > 1)
    c:ok 'PURGE q'
    c:ok 'DECLARE queue q shards=1 reshard'
    round()
    assert.equal(1, used())
    assert.equal(40, c:stats('q').per_shard[1].ready)
  end)

  it('keeps the order across kill -9 of broker and Redis at any moment', function()
    local book = new_book()
    declare(1)
    for round = 1, 8 do
      publish(60)
      local other = broker:connect()
      other:send(('DECLARE queue q shards=%d sharding.by=k reshard\r\n'):format(round * 3 % 10 + 1))
      if round % 2 == 0 then other:expect_line 'OK' end
      if round % 4 < 2 then broker:kill9() else broker:kill9_all() end
      other:close()
      broker:run()
      reconnect()
      -- What was acknowledged and confirmed does not come again.
      for _, payload in ipairs((traffic.take(c, 'q', 35))) do
        if not enter(book, payload) then error(payload .. ' came twice') end
      end
    end
    assert.equal(480 - book.count, c:stats('q').ready)
    take(book, 480 - book.count)
    assert.same({}, c:get 'q')
  end)

  it('reads all shards at a start, after any number was declared', function()
    local book = new_book()
    declare(20)
    publish(200)
    declare(2, 'reshard')
    broker:restart()
    reconnect()
    local stats = c:stats 'q'
    assert.equal(2, stats.shards)
    assert.equal(20, #stats.per_shard)
    assert.equal(200, stats.ready)
    assert.is_true(stats.mixed_shards > 0)
    declare(2)
    publish(50)
    take(book, 250)
  end)

  it('remembers publish ids', function()
    declare(6)
    local ids = {}
    for i = 1, 30 do ids[i] = c:ok(('PUB - q id=i%d h:k=%d'):format(i, i), 'a'):match '^%x+' end
    declare(2, 'reshard')
    for i = 1, 30 do assert.equal(ids[i], c:ok(('PUB - q id=i%d h:k=%d'):format(i, i), 'a'):match '^%x+') end
    broker:restart()
    reconnect()
    for i = 1, 30 do assert.equal(ids[i], c:ok(('PUB - q id=i%d h:k=%d'):format(i, i), 'a'):match '^%x+') end
    assert.equal(30, c:stats('q').ready)
  end)

  it('leaves nothing in Redis when the queue is deleted', function()
    declare(12)
    publish(100)
    declare(2, 'reshard')
    publish(100)
    c:ok 'DELETE queue q'
    assert.equal('', broker:redis_cli('--scan', '--pattern', ('tide:{%s/q#*'):format(broker.vhost)))
    declare(12)
    assert.equal(0, c:stats('q').ready)
  end)

  it('changes nothing when Redis refuses', function()
    declare(3)
    publish(20)
    broker:redis_cli('CONFIG', 'SET', 'maxmemory', '1')
    local answer = c:request 'DECLARE queue q shards=5 sharding.by=k reshard'
    broker:redis_cli('CONFIG', 'SET', 'maxmemory', '0')
    assert.matches('^ERR store ', answer)
    assert.equal(3, c:stats('q').shards)
    declare(3)
    take(new_book(), 20)
    declare(5, 'reshard')
    assert.equal(5, c:stats('q').shards)
  end)

  it('is asked for', function()
    declare(3)
    c:expect_answer('DECLARE queue q shards=4 sharding.by=k',
      "ERR mismatch queue 'q' exists with other options: it has shards=3, not shards=4; " ..
      'the option update changes that')
    assert.equal(3, c:stats('q').shards)
  end)

  it('changes no other option', function()
    declare(3)
    c:expect_answer('DECLARE queue q shards=4 sharding.by=k ttl=1h reshard',
      "ERR mismatch queue 'q' exists with other options: it has ttl=0, not ttl=1h; " ..
      'the option update changes that')
    c:expect_answer('DECLARE queue q shards=4 reshard',
      "ERR mismatch queue 'q' exists with other options: it has sharding.by=k, not sharding.by=key; " ..
      'the option update changes that')
    assert.equal(3, c:stats('q').shards)
  end)

  it('is refused where groups have an order', function()
    c:ok 'DECLARE queue q order-by=key'
    c:expect_answer('DECLARE queue q order-by=key shards=2 reshard',
      "ERR mismatch queue 'q' cannot change so: it keeps shards=1, because with order-by= what is at work in one " ..
      'shard holds back its group; declare a queue of another name')
    assert.equal(1, c:stats('q').shards)
  end)

  it('is a flag, which a new queue ignores', function()
    assert.matches('^ERR syntax reshard=5: expected 0 or 1', c:request 'DECLARE queue q shards=4 reshard=5')
    declare(4, 'reshard')
    declare(4)
    declare(4, 'reshard=1')
    assert.same({ shards = '4', ['sharding.by'] = 'k' }, c:document('LIST queues')[1].options)
    declare(4, 'reshard=0')
    declare(3, 'reshard')
    assert.same({ shards = '3', ['sharding.by'] = 'k' }, c:document('LIST queues')[1].options)
  end)

  it('ends when each shard has been empty once', function()
    declare(4)
    publish(12)
    declare(6, 'reshard')
    local mixed = c:stats('q').mixed_shards
    assert.is_true(mixed > 1)
    local held = c:get 'q max=500'
    assert.equal(12, #held)
    publish(1)
    assert.equal(mixed, c:stats('q').mixed_shards)
    for _, m in ipairs(held) do c:ok('ACK ' .. m.tag) end
    assert(wait.poll(function() return c:stats('q').mixed_shards <= 1 end))
  end)
end)
