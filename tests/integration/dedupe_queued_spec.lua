-- dedupe=queued: a publish id is taken for as long as its message is in the queue, and no longer.
local Broker = require 'support.broker'
local traffic = require 'support.traffic'
local wait = require 'support.wait'

local SMALL = { '--window-messages', '16', '--fsync', 'no' }

local function pub(queue, id, options)
  return ('PUB - %s id=%s%s %d\r\n%s\r\n'):format(queue, id, options and ' ' .. options or '', #id, id)
end

--- Publish; it must be stored as new.
---@return string id of the message
local function new(c, queue, id, options)
  c:send(pub(queue, id, options))
  return c:expect '^OK (%x+) 1$'
end

--- Publish; the queue must have it, as this message.
local function duplicate(c, queue, id, first)
  c:send(pub(queue, id))
  c:expect_line(('OK %s 1 duplicate'):format(first))
end

for _, kind in ipairs {
  { name = 'a durable queue', options = '' },
  { name = 'a durable queue of four shards', options = ' shards=4 sharding=round_robin' },
  { name = 'a queue in memory', options = ' durable=0' },
} do
  describe(kind.name .. ' with dedupe=queued', function()
    local broker, c

    setup(function() broker = Broker.start { args = SMALL } end)
    teardown(function() broker:expect_clean_stop() end)
    before_each(function() c = broker:enter_vhost() end)
    after_each(function() c:close() end)

    local function declare(options)
      c:ok('DECLARE queue jobs dedupe=queued retry=none' .. kind.options .. (options or ''))
    end

    it('stores an id once, in whatever state its message is', function()
      declare()
      local ids = {}
      for i = 1, 100 do ids[i] = new(c, 'jobs', 'job-' .. i) end
      local late = new(c, 'jobs', 'late', 'delay=1h')
      c:send(('GET jobs id=%s\r\nGET jobs id=%s\r\n'):format(ids[2], ids[90]))
      for _ = 1, 2 do c:expect_line 'OK 1' c:expect_msg() end
      c:ok 'NACK 2'
      for _, i in ipairs { 1, 2, 50, 90, 100 } do duplicate(c, 'jobs', 'job-' .. i, ids[i]) end
      duplicate(c, 'jobs', 'late', late)
      local stats = c:stats 'jobs'
      assert.same({ 101, 6, 101 }, { stats.published, stats.duplicates, stats.dedupe_ids })
      traffic.expect_counts(c, 'jobs', { ready = 98, delayed = 1, unacked = 1, buried = 1 })
    end)

    it('has an id free again when its message is done with', function()
      declare()
      local ids = {}
      for i = 1, 60 do ids[i] = new(c, 'jobs', 'job-' .. i) end
      -- Pipelined: what is acknowledged is free for the next request.
      c:send(('GET jobs id=%s\r\n'):format(ids[3]))
      c:expect_line 'OK 1'
      c:expect_msg()
      c:send('ACK 1\r\n' .. pub('jobs', 'job-3') .. pub('jobs', 'job-3'))
      c:expect_line 'OK 1'
      local again = c:expect '^OK (%x+) 1$'
      assert.not_equal(ids[3], again)
      c:expect_line(('OK %s 1 duplicate'):format(again))
      -- Removed, in memory and in Redis alone; taken by an automatic ack; dropped with the expiry.
      c:expect_answer(('REMOVE jobs %s %s'):format(ids[1], ids[55]), 'OK 2')
      new(c, 'jobs', 'job-1')
      new(c, 'jobs', 'job-55')
      c:send(('GET jobs id=%s ack=auto\r\n'):format(ids[40]))
      c:expect_line 'OK 1'
      c:expect_msg()
      new(c, 'jobs', 'job-40')
      new(c, 'jobs', 'short', 'ttl=1ms')
      assert(wait.poll(function() return c:stats('jobs').expired == 1 end))
      new(c, 'jobs', 'short')
      assert.equal(61, c:stats('jobs').dedupe_ids)
      -- Purged, also what is in Redis alone.
      c:ok 'PURGE jobs'
      assert.equal(0, c:stats('jobs').dedupe_ids)
      for i = 1, 60 do new(c, 'jobs', 'job-' .. i) end
      assert.equal(60, c:stats('jobs').dedupe_ids)
      traffic.take(c, 'jobs', 60)
      assert.equal(0, c:stats('jobs').dedupe_ids)
      if kind.options == '' then
        assert.equal('0', broker:redis_cli('EXISTS', broker:key('jobs', 'dedupe')))
      end
    end)

    it('has an id free again when its message was dead-lettered', function()
      c:ok 'DECLARE queue dead'
      declare ' dead-letter=-/dead'
      new(c, 'jobs', 'a')
      c:send 'GET jobs\r\n'
      c:expect_line 'OK 1'
      c:expect_msg()
      c:ok 'NACK 1 dead'
      assert(wait.poll(function() return c:stats('dead').ready == 1 end))
      assert(wait.poll(function() return c:stats('jobs').dedupe_ids == 0 end))
      new(c, 'jobs', 'a')
    end)

    --- Each is published, and dies.
    local function die(queue, ids)
      for _, id in ipairs(ids) do
        new(c, queue, id)
        c:ok(('NACK %s dead'):format(c:get(queue)[1].tag))
      end
      assert(wait.poll(function() return c:stats('dead').ready >= #ids end))
      assert(wait.poll(function() return c:stats(queue).dedupe_ids == 0 end))
    end

    it('has an id taken again when its message is sent back by REDRIVE', function()
      c:ok 'DECLARE queue dead'
      declare ' dead-letter=-/dead'
      die('jobs', { 'a', 'c' })
      assert.equal('2 0', c:ok 'REDRIVE dead')
      assert.equal(2, c:stats('jobs').dedupe_ids)
      local ids = {}
      for i, m in ipairs(c:peek 'jobs 10') do ids[i] = m.id end
      duplicate(c, 'jobs', 'a', ids[1])
      duplicate(c, 'jobs', 'c', ids[2])
      traffic.take(c, 'jobs', 2)
      new(c, 'jobs', 'c')
    end)

    it('leaves a dead letter whose id is taken where it is', function()
      c:ok 'DECLARE queue dead'
      declare ' dead-letter=-/dead'
      die('jobs', { 'a' })
      local id = new(c, 'jobs', 'a')
      assert.equal('0 1', c:ok 'REDRIVE dead')
      broker:expect_log(('message %s is there with the same publish id'):format(id))
      traffic.expect_counts(c, 'dead', { ready = 1, unacked = 0 })
      traffic.take(c, 'jobs', 1)
      assert.equal('1 0', c:ok 'REDRIVE dead')
      assert.equal(1, c:stats('jobs').dedupe_ids)
    end)

    it('gives an id over to the queue that its message is moved to', function()
      declare()
      c:ok('DECLARE queue more dedupe=queued' .. kind.options)
      c:ok 'DECLARE queue plain'
      for i = 1, 40 do new(c, 'jobs', 'job-' .. i) end
      assert.equal('40 0', c:ok 'REDRIVE jobs to=-/more')
      assert.same({ 0, 40 }, { c:stats('jobs').dedupe_ids, c:stats('more').dedupe_ids })
      for i = 1, 40 do
        new(c, 'jobs', 'job-' .. i)
        c:send(pub('more', 'job-' .. i))
        c:expect '^OK %x+ 1 duplicate$'
      end
      assert.equal('0 40', c:ok 'REDRIVE jobs to=-/more')
      assert.equal('40 0', c:ok 'REDRIVE jobs to=-/plain')
      assert.equal(0, c:stats('jobs').dedupe_ids)
    end)
  end)
end

describe('dedupe=queued', function()
  local broker, c

  local function restart(how)
    broker[how](broker)
    broker:restart()
    c = broker:connect()
  end

  it('is what EXPLAIN and LIST say, and no other option than it was', function()
    broker = Broker.start { args = SMALL }
    c = broker:connect()
    c:ok 'DECLARE queue jobs dedupe=queued'
    c:ok 'DECLARE queue jobs dedupe=queued'
    c:expect_answer('DECLARE queue jobs dedupe=1m',
      "ERR mismatch queue 'jobs' exists with other options: it has dedupe=queued, not dedupe=1m; " ..
        'the option update changes that')
    assert.matches('^ERR syntax dedupe=waiting: expected a duration up to 1d, or queued',
      c:request 'DECLARE queue x dedupe=waiting')
    local first = new(c, 'jobs', 'a')
    local queue = c:document('EXPLAIN - jobs id=a').queues[1]
    assert.same({ 'duplicate', 'queued', first }, { queue.dedupe, queue.dedupe_window, queue.first })
    assert.equal('new', c:document('EXPLAIN - jobs id=b').queues[1].dedupe)
    broker:expect_clean_stop()
  end)

  it('holds across restarts and kill -9, however long a message waits', function()
    broker = Broker.start { args = { '--window-messages', '16' } }
    c = broker:connect()
    c:ok 'DECLARE queue jobs dedupe=queued shards=3 sharding=round_robin'
    local ids = {}
    for i = 1, 90 do ids[i] = new(c, 'jobs', 'job-' .. i, i % 10 == 0 and 'delay=1h' or nil) end
    for _, how in ipairs { 'kill9_all', 'kill9', 'expect_clean_stop' } do
      restart(how)
      for i = 1, 90, 7 do duplicate(c, 'jobs', 'job-' .. i, ids[i]) end
      local id = ids[#how]
      c:send(('GET jobs id=%s\r\n'):format(id))
      c:expect_line 'OK 1'
      c:ok('ACK ' .. c:expect_msg().tag)
      ids[#how] = new(c, 'jobs', 'job-' .. #how)
      assert.equal(90, c:stats('jobs').dedupe_ids)
    end
    broker:expect_clean_stop()
  end)

  -- What was answered is the oracle: an id is in the queue, or it is not.
  it('is exact after kill -9 at any time', function()
    broker = Broker.start { args = { '--window-messages', '16' } }
    c = broker:connect()
    c:ok 'DECLARE queue jobs dedupe=queued shards=2 sharding=round_robin'
    local first = {} -- publish id -> message id, of what is confirmed and was not acknowledged
    for round = 1, 6 do
      for i = 1, 40 do
        local id = 'job-' .. i
        c:send(pub('jobs', id))
        local got, how = c:expect '^OK (%x+) 1( ?%a*)$'
        if first[id] then
          assert.same({ first[id], ' duplicate' }, { got, how })
        else
          assert.equal('', how)
          first[id] = got
        end
      end
      -- Settled and answered: these are free. The rest of the requests is in the air when the kill comes.
      local taken = {}
      for i = round, 40, 3 do
        c:send(('GET jobs id=%s\r\n'):format(first['job-' .. i]))
        c:expect_line 'OK 1'
        taken[#taken + 1] = { id = 'job-' .. i, tag = c:expect_msg().tag }
      end
      for n, t in ipairs(taken) do
        if n % 2 == 0 then
          c:ok('ACK ' .. t.tag)
          first[t.id] = nil
        end
      end
      for n, t in ipairs(taken) do
        if n % 2 == 1 then
          c:send(('ACK %s\r\n'):format(t.tag) .. pub('jobs', t.id))
        end
      end
      restart 'kill9_all'
      -- Of what was in the air either message may be there, but never two of them.
      local seen = {}
      local stats = c:stats 'jobs'
      assert(wait.poll(function()
        stats = c:stats 'jobs'
        return stats.dedupe_ids == stats.ready + stats.unacked + stats.delayed
      end))
      for n, t in ipairs(taken) do
        if n % 2 == 1 then
          c:send(pub('jobs', t.id))
          first[t.id] = c:expect '^OK (%x+) 1'
        end
      end
      for id, message in pairs(first) do
        assert.is_nil(seen[message])
        seen[message] = id
        assert.equal(id, c:document(('FIND jobs %s'):format(message)).payload)
      end
      assert.equal(c:stats('jobs').dedupe_ids, c:stats('jobs').ready)
    end
    local payloads, count = traffic.take(c, 'jobs', c:stats('jobs').ready), {}
    for _, id in ipairs(payloads) do
      assert.is_nil(count[id], id)
      count[id] = 1
    end
    assert.equal(0, c:stats('jobs').dedupe_ids)
    broker:expect_clean_stop()
  end)

  it('removes at a start what a crash has left: an id without a message, the older of two', function()
    broker = Broker.start { redis = {}, args = { '--window-messages', '16' } }
    local redis = broker.redis
    c = broker:connect()
    c:ok 'DECLARE queue jobs dedupe=queued shards=2 sharding=hash'
    local kept, twice = new(c, 'jobs', 'kept'), new(c, 'jobs', 'twice')
    local function key(shard, set) return ('tide:{//jobs#%d}:%s'):format(shard, set) end
    local shard = c:document('FIND jobs ' .. twice).shard
    broker:kill9()
    local score = redis:cli('ZSCORE', key(shard, 'dedupe'), twice .. ' twice')
    -- The other shard has a newer message with that id, as if the removal of this one had not come through.
    local newer = ('%016x'):format(tonumber(twice, 16) + 1)
    redis:cli('EVAL', "redis.call('HSET', KEYS[2], ARGV[2], redis.call('HGET', KEYS[1], ARGV[1]))", 2,
      key(shard, 'msg'), key(1 - shard, 'msg'), twice, newer)
    redis:cli('ZADD', key(1 - shard, 'ready'), '0', newer)
    redis:cli('ZADD', key(1 - shard, 'dedupe'), score, newer .. ' twice')
    redis:cli('ZADD', key(shard, 'dedupe'), score, '0123456789abcdef orphan')
    broker:restart()
    c = broker:connect()
    assert(wait.poll(function() return c:stats('jobs').ready == 2 end))
    assert(wait.poll(function() return redis:cli('ZCARD', key(shard, 'dedupe')) == (kept and '1') end))
    c:expect_answer('FIND jobs ' .. twice, 'ERR not-found the queue has no message ' .. twice)
    duplicate(c, 'jobs', 'twice', newer)
    duplicate(c, 'jobs', 'kept', kept)
    new(c, 'jobs', 'orphan')
    broker:expect_clean_stop()
  end)

  it('is refused when its memory is used up, until messages are done with', function()
    broker = Broker.start { args = { '--max-dedupe-bytes', '65536', '--fsync', 'no' } }
    c = broker:connect()
    c:ok 'DECLARE queue jobs dedupe=queued'
    local count = 0
    repeat
      c:send(pub('jobs', 'job-' .. count + 1))
      local line = c:expect '^[OE].*$'
      local ok = line:find '^OK %x+ 1$'
      if ok then count = count + 1 else assert.matches('^ERR full remembered publish ids fill their limit', line) end
    until not ok
    assert.is_true(count > 100)
    traffic.take(c, 'jobs', 10)
    for i = 1, 10 do new(c, 'jobs', 'job-' .. i) end
    broker:expect_clean_stop()
  end)

  it('leaves an id free whose publish Redis has refused', function()
    broker = Broker.start { redis = {}, args = { '--window-messages', '16' } }
    c = broker:connect()
    c:ok 'DECLARE queue jobs dedupe=queued'
    broker.redis:cli('CONFIG', 'SET', 'maxmemory', '1')
    c:send(pub('jobs', 'a'))
    c:expect '^ERR store OOM'
    broker.redis:cli('CONFIG', 'SET', 'maxmemory', '0')
    duplicate(c, 'jobs', 'a', new(c, 'jobs', 'a'))
    broker:expect_clean_stop()
  end)
end)
