-- DECLARE queue max-length= max-bytes= overflow=: how much may wait in a queue.
local Broker = require 'support.broker'
local traffic = require 'support.traffic'
local wait = require 'support.wait'

describe('a queue with a limit', function()
  local broker, c

  setup(function() broker = Broker.start { args = { '--window-messages', '16', '--fsync', 'no' } } end)
  teardown(function() broker:expect_clean_stop() end)
  before_each(function() c = broker:enter_vhost() end)
  after_each(function() c:close() end)

  --- Publish all at once; gives how many were taken and how many refused as full.
  local function flood(client, queue, count, make)
    local lines = {}
    for i = 1, count do
      local payload, options = tostring(i), nil
      if make then payload, options = make(i) end
      lines[i] = ('PUB - %s%s %d\r\n%s\r\n'):format(queue, options and ' ' .. options or '', #payload, payload)
    end
    client:send(table.concat(lines))
    local taken, refused = 0, 0
    for _ = 1, count do
      local answer = client:read_line()
      if answer:find '^OK' then taken = taken + 1 end
      if answer:find '^ERR full' then refused = refused + 1 end
    end
    assert.equal(count, taken + refused)
    return taken, refused
  end

  local function numbers(from, to)
    local list = {}
    for i = from, to do list[#list + 1] = tostring(i) end
    return list
  end

  local function restart()
    broker:kill9_all()
    broker:run()
    c = broker:connect()
  end

  for _, durable in ipairs { 0, 1 } do
    describe('durable=' .. durable .. ',', function()
      local function declare(name, options)
        c:ok(('DECLARE queue %s durable=%d %s'):format(name, durable, options))
      end

      it('refuses what is more, over all shards and from several clients', function()
        declare('q', 'max-length=100 shards=4 sharding=round_robin')
        local other = broker:connect()
        other:send(('PUB - q 1\r\nx\r\n'):rep(80))
        local taken = flood(c, 'q', 80)
        for _ = 1, 80 do
          local answer = other:read_line()
          if answer:find '^OK' then taken = taken + 1 else assert.matches('^ERR full ', answer) end
        end
        other:close()
        assert.equal(100, taken)
        local stats = c:stats 'q'
        assert.same({ 100, 60 }, { stats.ready, stats.refused })
        assert.equal("ERR full queue 'q' is full: waiting messages: 100, max-length=100",
          c:request('PUB - q', 'x'))
        traffic.take(c, 'q', 10)
        assert.same({ 10, 10 }, { flood(c, 'q', 20) })
      end)

      it('counts what is delayed, and neither what is held nor what is buried', function()
        declare('q', 'max-length=4 ack-timeout=1h')
        c:ok('PUB - q delay=1h', 'delayed')
        assert.same({ 3, 1 }, { flood(c, 'q', 4) })
        local held = c:get 'q max=2'
        assert.same({ 2, 1 }, { flood(c, 'q', 3) })
        c:ok(('NACK %s dead'):format(held[1].tag))
        assert.matches('^ERR full', c:request('PUB - q', 'x'))
        -- What comes back is never refused.
        c:ok(('NACK %s'):format(held[2].tag))
        assert.matches('^ERR full .* waiting messages: 5,', c:request('PUB - q', 'x'))
      end)

      it('refuses a message of which a queue has no room, in all queues', function()
        c:ok 'DECLARE exchange x fanout'
        for _, name in ipairs { 'p', 'q', 'r' } do
          declare(name, name == 'q' and 'max-length=1' or 'max-length=9')
          c:ok(('BIND %s x -'):format(name))
        end
        c:ok('PUB x k', 'first')
        assert.matches("^ERR full queue 'q'", c:request('PUB x k', 'second'))
        for _, name in ipairs { 'p', 'q', 'r' } do assert.equal(1, c:stats(name).ready) end
        assert.matches("'q' is full", c:document('EXPLAIN x k').queues[2].refused)
        assert.equal(1, c:stats('q').refused)
      end)

      it('is not full while a consumer waits for messages', function()
        declare('q', 'max-length=1')
        c:ok 'SUB q s prefetch=100 ack=auto'
        local publisher = broker:connect()
        assert.same({ 100, 0 }, { flood(publisher, 'q', 100) })
        publisher:close()
        for i = 1, 100 do assert.equal(tostring(i), c:expect_msg().payload) end
      end)

      it('drops the first ones for new ones', function()
        declare('q', 'max-length=50 overflow=drop-head')
        assert.same({ 200, 0 }, { flood(c, 'q', 200) })
        traffic.expect_counts(c, 'q', { ready = 50, overflowed = 150, refused = 0 })
        assert.same(numbers(151, 200), (traffic.take(c, 'q', 50)))
      end)

      local function is_urgent_first(a, b) return a.pri > b.pri or (a.pri == b.pri and a.n < b.n) end

      --- Publish from..to; gives what a queue of `max` has then, of these and of `before`.
      local function flood_by_priority(from, to, max, before)
        local all = { table.unpack(before or {}) }
        flood(c, 'q', to - from + 1, function(i)
          local n = from + i - 1
          local pri = n * 37 % 101
          all[#all + 1] = { n = n, pri = pri }
          return tostring(n), ('pri=%d id=%d h:k=%d'):format(pri, n, n % 7)
        end)
        table.sort(all, is_urgent_first)
        return { table.unpack(all, 1, max) }
      end

      --- @param options string? of the queue, beside its limit
      local function expect_left(expected, options)
        local left = {}
        traffic.expect_counts(c, 'q', { ready = #expected })
        for _, m in ipairs((select(2, traffic.take(c, 'q', #expected)))) do
          left[#left + 1] = { n = tonumber(m.payload), pri = tonumber(m.options.pri or 0) }
        end
        -- Shards and groups have an order of their own.
        if options then table.sort(left, is_urgent_first) end
        assert.same(expected, left)
      end

      for _, options in ipairs { '', ' shards=3 sharding=round_robin', ' order-by=h:k', ' dedupe=queued' } do
        it('drops the last ones, however many are before: drop-lowest' .. options, function()
          declare('q', 'max-length=300 overflow=drop-lowest priority=strict' .. options)
          local left = flood_by_priority(1, 700, 300)
          traffic.expect_counts(c, 'q', { ready = 300, overflowed = 400 })
          left = flood_by_priority(701, 800, 300, left)
          traffic.expect_counts(c, 'q', { ready = 300, overflowed = 500 })
          if options == ' dedupe=queued' then assert.equal(300, c:stats('q').dedupe_ids) end
          if durable == 1 then restart() end
          expect_left(flood_by_priority(801, 900, 300, left), options ~= '' and options)
        end)
      end

      it('drops of equal ones the newest with drop-lowest, and of those that are delayed the last', function()
        declare('q', 'max-length=50 overflow=drop-lowest')
        flood(c, 'q', 120)
        traffic.expect_counts(c, 'q', { ready = 50, overflowed = 70 })
        assert.same(numbers(1, 50), (traffic.take(c, 'q', 50)))
        flood(c, 'q', 90, function(i) return 'd' .. i, ('delay=%dm'):format(100 - i) end)
        traffic.expect_counts(c, 'q', { delayed = 50 })
        assert.equal('d90', c:peek 'q state=delayed'[1].payload)
        c:ok('PUB - q', 'ready')
        traffic.expect_counts(c, 'q', { delayed = 50, ready = 0, overflowed = 111 })
      end)

      it('keeps what is held, and drops the last of what comes back, with drop-lowest', function()
        declare('q', 'max-length=40 overflow=drop-lowest priority=strict ack-timeout=1h')
        flood(c, 'q', 40, function(i) return 'low' .. i end)
        local held = {}
        repeat
          for _, m in ipairs(c:get(('q max=%d wait=20s'):format(20 - #held))) do held[#held + 1] = m end
        until #held == 20
        flood(c, 'q', 40, function(i) return 'high' .. i, 'pri=9' end)
        traffic.expect_counts(c, 'q', { ready = 40, unacked = 20, overflowed = 20 })
        c:ok(('NACK %s-%s requeue'):format(held[1].tag, held[20].tag))
        traffic.expect_counts(c, 'q', { ready = 40, unacked = 0, overflowed = 40 })
        for _, m in ipairs((select(2, traffic.take(c, 'q', 40)))) do assert.matches('^high', m.payload) end
      end)

      it('dead-letters the last ones with dead-letter-lowest', function()
        declare('dead', 'max-length=1000')
        declare('q', 'max-length=100 overflow=dead-letter-lowest dead-letter=-/dead priority=strict')
        local left = flood_by_priority(1, 300, 100)
        traffic.expect_counts(c, 'q', { ready = 100, overflowed = 200, dead_lettered = 200 })
        traffic.expect_counts(c, 'dead', { ready = 200 })
        expect_left(left)
        assert.equal('maxlen', c:get('dead')[1].headers['x-death-reason'])
      end)

      it('drops the last ones until it is below max-bytes', function()
        declare('q', 'max-bytes=3000 overflow=drop-lowest priority=strict')
        flood(c, 'q', 90, function(i) return ('%03d'):format(i) .. ('x'):rep(97), 'pri=' .. (i % 2) end)
        traffic.expect_counts(c, 'q', { ready = 30, overflowed = 60, waiting_bytes = 3000 })
        for i, m in ipairs((select(2, traffic.take(c, 'q', 30)))) do
          assert.equal(('%03d'):format(2 * i - 1), m.payload:sub(1, 3))
        end
      end)

      it('counts what comes back with a delay', function()
        declare('q', 'max-length=2 overflow=drop-head')
        c:ok('PUB - q', '1')
        local tag = c:get('q')[1].tag
        for i = 2, 3 do c:ok('PUB - q', tostring(i)) end
        c:ok('NACK ' .. tag .. ' delay=30m')
        assert.is_true(wait.poll(function() return c:stats('q').ready == 1 end))
        assert.equal(1, c:stats('q').delayed)
        tag = c:get('q')[1].tag
        c:ok('NACK ' .. tag .. ' bury')
        c:ok('PUB - q', '4')
        local id = c:document('PEEK q state=buried').messages[1].id
        c:ok('RESCHEDULE q ' .. id .. ' delay=30m')
        assert.is_true(wait.poll(function() return c:stats('q').ready == 0 end))
        assert.equal(2, c:stats('q').delayed)
      end)

      it('drops the lowest rank first, over its shards, and then what is delayed', function()
        declare('q', 'max-length=3 overflow=drop-head priority=strict shards=3 sharding=round_robin')
        flood(c, 'q', 5, function(i) return 'p' .. i, 'pri=' .. i end)
        traffic.expect_counts(c, 'q', { ready = 3, overflowed = 2 })
        local left = {}
        for _, m in ipairs(c:get 'q max=3') do left[m.payload] = true end
        assert.same({ p1 = true, p2 = true, p3 = true }, left)
        c:ok 'DELETE queue q'
        declare('q', 'max-length=3 overflow=drop-head')
        flood(c, 'q', 5, function(i) return 'd' .. i, ('delay=%dm'):format(i) end)
        traffic.expect_counts(c, 'q', { delayed = 3, overflowed = 2 })
        assert.equal('d3', c:peek 'q state=delayed'[1].payload)
        c:ok('PUB - q', 'ready')
        traffic.expect_counts(c, 'q', { delayed = 3, ready = 0, overflowed = 3 })
      end)

      it('keeps the newest beside one that is held', function()
        declare('q', 'max-length=1 overflow=drop-head')
        c:ok('PUB - q', '1')
        local held = c:get 'q'
        flood(c, 'q', 5)
        traffic.expect_counts(c, 'q', { ready = 1, unacked = 1 })
        assert.equal('5', c:peek 'q'[1].payload)
        c:ok(('NACK %s requeue'):format(held[1].tag))
        traffic.expect_counts(c, 'q', { ready = 1, unacked = 0 })
        assert.equal('5', c:get('q')[1].payload)
      end)

      it('dead-letters the first ones, or keeps them buried', function()
        declare('dead', 'max-length=10')
        declare('q', 'max-length=20 overflow=dead-letter dead-letter=-/dead')
        flood(c, 'q', 50)
        traffic.expect_counts(c, 'q', { ready = 20, overflowed = 30, dead_lettered = 10, buried = 20 })
        local payloads, deliveries = traffic.take(c, 'dead', 10)
        table.sort(payloads, function(a, b) return tonumber(a) < tonumber(b) end)
        assert.same(numbers(1, 10), payloads)
        assert.equal('maxlen', deliveries[1].headers['x-death-reason'])
        assert.equal('overflow', deliveries[1].headers['x-death-rule'])
        assert.same(numbers(31, 50), (traffic.take(c, 'q', 20)))
      end)

      it('limits the bytes of what waits', function()
        declare('q', 'max-bytes=1000')
        local function make() return ('x'):rep(100) end
        assert.same({ 10, 5 }, { flood(c, 'q', 15, make) })
        assert.equal("ERR full queue 'q' is full: waiting bytes: 1000, of this message: 1, max-bytes=1000",
          c:request('PUB - q', 'x'))
        c:ok('PUB - q', '')
        traffic.take(c, 'q', 5)
        assert.same({ 5, 1 }, { flood(c, 'q', 6, make) })
        assert.equal('OK 11', c:request 'PURGE q')
        assert.same({ 10, 2 }, { flood(c, 'q', 12, make) })
        declare('large', 'max-bytes=1000 overflow=drop-head')
        flood(c, 'large', 40, make)
        traffic.expect_counts(c, 'large', { ready = 10, overflowed = 30, waiting_bytes = 1000 })
        c:ok('PUB - large', ('x'):rep(950))
        traffic.expect_counts(c, 'large', { ready = 1, waiting_bytes = 950 })
        assert.equal("ERR too-large a message of 1001 bytes is too large for queue 'large': it has max-bytes=1000",
          c:request('PUB - large', ('x'):rep(1001)))
      end)

      it('frees its room when messages expire', function()
        declare('q', 'max-length=100 max-bytes=300 ttl=1s')
        assert.same({ 100, 50 }, { flood(c, 'q', 150, function() return 'abc' end) })
        traffic.expect_counts(c, 'q', { ready = 0, waiting_bytes = 0 })
        assert.same({ 100, 50 }, { flood(c, 'q', 150, function() return 'abc' end) })
      end)
    end)
  end

  it('takes a repetition of what it has, though it is full', function()
    c:ok 'DECLARE queue q max-length=1'
    local first = c:ok('PUB - q id=1', 'x')
    assert.equal(first .. ' duplicate', c:ok('PUB - q id=1', 'x'))
    assert.matches('^ERR full', c:request('PUB - q id=2', 'x'))
  end)

  it('counts what only Redis has, after a kill too', function()
    c:ok 'DECLARE queue q max-length=300 ack-timeout=1h shards=2 sharding=round_robin'
    assert.same({ 300, 100 }, { flood(c, 'q', 400) })
    c:get 'q max=10'
    assert.same({ 10, 1 }, { flood(c, 'q', 11) })
    restart()
    assert.matches('^ERR full .* waiting messages: 310,', c:request('PUB - q', 'x'))
    traffic.take(c, 'q', 20)
    assert.same({ 10, 1 }, { flood(c, 'q', 11) })
  end)

  it('gives nothing up for what Redis refuses', function()
    c:ok 'DECLARE queue dead'
    for name, options in pairs {
      dropping = 'overflow=drop-head', dying = 'overflow=dead-letter dead-letter=-/dead', refusing = 'overflow=reject',
    } do
      c:ok(('DECLARE queue %s max-length=20 max-bytes=9999 %s'):format(name, options))
      flood(c, name, 20)
    end
    broker:redis_cli('CONFIG', 'SET', 'maxmemory', '1')
    for _ = 1, 5 do
      for _, name in ipairs { 'dropping', 'dying' } do
        assert.matches('^ERR store OOM', c:request('PUB - ' .. name, 'refused'))
      end
      assert.matches('^ERR full', c:request('PUB - refusing', 'refused'))
    end
    for _, name in ipairs { 'dropping', 'dying', 'refusing' } do
      assert.equal(20, c:stats(name).ready)
      assert.equal(5, #(traffic.take(c, name, 5)))
    end
    broker:redis_cli('CONFIG', 'SET', 'maxmemory', '0')
    restart()
    for _, name in ipairs { 'dropping', 'dying', 'refusing' } do
      assert.same({ 15, 26 }, { c:stats(name).ready, c:stats(name).waiting_bytes })
      assert.same(numbers(6, 20), (traffic.take(c, name, 15)))
    end
  end)

  it('drops the first ones of a backlog', function()
    c:ok 'DECLARE queue q max-length=200 overflow=drop-head'
    for round = 0, 9 do
      flood(c, 'q', 100, function(i) return tostring(round * 100 + i) end)
    end
    traffic.expect_counts(c, 'q', { ready = 200, overflowed = 800 })
    restart()
    flood(c, 'q', 50, function(i) return tostring(1000 + i) end)
    traffic.expect_counts(c, 'q', { ready = 200, overflowed = 50 })
    assert.same(numbers(851, 1050), (traffic.take(c, 'q', 200)))
  end)

  it('drops the last ones, though it is killed, or deleted, in the middle', function()
    local options = 'max-length=100 overflow=drop-lowest priority=strict shards=2 sharding=round_robin'
    local function make(i) return tostring(i), 'pri=' .. i % 200 end
    c:ok('DECLARE queue q ' .. options)
    flood(c, 'q', 600, make)
    restart()
    flood(c, 'q', 100, make)
    traffic.expect_counts(c, 'q', { ready = 100 })
    for _, m in ipairs((select(2, traffic.take(c, 'q', 100)))) do
      -- 150 messages have 150 or more, and 100 are left.
      assert.is_true(tonumber(m.options.pri) >= 166, m.options.pri)
    end
    flood(c, 'q', 600, make)
    c:ok 'DELETE queue q'
    c:ok('DECLARE queue q ' .. options)
    flood(c, 'q', 150, make)
    traffic.expect_counts(c, 'q', { ready = 100, overflowed = 50 })
  end)

  -- The bytes of the payloads of what is not buried.
  local script = [[
    local sum = 0
    for i = 2, 4 do
      for _, id in ipairs(redis.call('ZRANGE', KEYS[i], 0, -1)) do
        sum = sum + #cmsgpack.unpack(redis.call('HGET', KEYS[1], id))[10]
      end
    end
    return sum]]

  it('knows its bytes after a kill, whatever was under way', function()
    c:ok 'DECLARE queue q max-bytes=1000000 ack-timeout=1h'
    local bytes = 0
    flood(c, 'q', 300, function(i)
      bytes = bytes + i
      return ('x'):rep(i)
    end)
    traffic.expect_counts(c, 'q', { waiting_bytes = bytes })
    for _, m in ipairs((select(2, traffic.take(c, 'q', 50)))) do bytes = bytes - #m.payload end
    local held = c:get 'q max=10'
    c:ok(('NACK %s dead'):format(held[10].tag))
    bytes = bytes - #held[10].payload
    assert(wait.poll(function() return broker:redis_cli('ZCARD', broker:key('q', 'buried')) == '1' end))
    local before = broker:log()
    restart()
    assert.equal(bytes, c:stats('q').waiting_bytes)
    assert.is_nil(broker:log():find('reading them', #before, true))
    for _ = 1, 5 do
      -- Killed with batches of removals and writes on their way.
      c:send(('GET q max=20 ack=auto\r\n' .. ('PUB - q 7\r\n7 bytes\r\n'):rep(20)):rep(10))
      c:expect '^OK'
      restart()
      local sum = tonumber(broker:redis_cli('EVAL', script, '4', broker:key('q', 'msg'), broker:key('q', 'ready'),
        broker:key('q', 'delayed'), broker:key('q', 'unack')))
      assert.equal(sum, c:stats('q').waiting_bytes)
    end
  end)

  it('reads its messages once when Redis could not write down their bytes', function()
    c:ok 'DECLARE queue q max-bytes=1000000 ack-timeout=1h'
    flood(c, 'q', 100, function() return 'abcde' end)
    c:get 'q max=10'
    broker:redis_cli('HSET', broker:key('q', 'size'), 'before', '7 7', 'after', '8 8')
    restart()
    broker:expect_log 'the bytes of 100 messages of a shard are not known: reading them'
    assert.equal(500, c:stats('q').waiting_bytes)
  end)

  it('is an option of the queue like others', function()
    c:ok 'DECLARE queue q max-length=10 max-bytes=1000 overflow=drop-head'
    c:ok 'DECLARE queue q max-length=010 max-bytes=1000 overflow=drop-head'
    for words, answer in pairs {
      ['q max-length=11 max-bytes=1000 overflow=drop-head'] =
        "ERR mismatch queue 'q' exists with other options: it has max-length=10, not max-length=11; " ..
        'the option update changes that',
      ['q max-length=10 max-bytes=1000'] =
        "ERR mismatch queue 'q' exists with other options: it has overflow=drop-head, not overflow=reject; " ..
        'the option update changes that',
      ['new max-length=-1'] = 'ERR syntax max-length=-1: expected a number of messages from 1 to 1000000000000, '
        .. 'or 0 for no limit',
      ['new max-bytes=1k'] = 'ERR syntax max-bytes=1k: expected a number of bytes from 1 to 1000000000000, '
        .. 'or 0 for no limit',
      ['new max-length=1 overflow=drop'] = 'ERR syntax overflow=drop: expected reject, drop-head, dead-letter, '
        .. 'drop-lowest or dead-letter-lowest',
      ['new overflow=drop-head'] =
        'ERR syntax overflow= says what happens at a limit: give max-length= or max-bytes=',
      ['new max-length=1 overflow=dead-letter'] =
        'ERR syntax overflow=dead-letter needs dead-letter=<exchange>/<key>',
    } do
      c:expect_answer('DECLARE queue ' .. words, answer)
    end
  end)
end)
