-- PUB id= to topics: a publish that is repeated is appended once, whatever happens in
-- between, and the answer says where the first one lies.
local Broker = require 'support.broker'
local traffic = require 'support.traffic'
local wait = require 'support.wait'

local pub = traffic.with_id

--- Publish an id that is new; gives "<message id> 1" and "<partition>:<offset>".
local function first(c, topic, id)
  c:send(pub(topic, id))
  return c:expect '^OK (%x+ 1) (%d+:%d+)$'
end

local function expect_duplicate(c, topic, id, head, place)
  c:send(pub(topic, id))
  c:expect_line(('OK %s duplicate %s'):format(head, place))
end

local function expect_stats(c, topic, want)
  local stats = c:stats(topic)
  for name, value in pairs(want) do assert.equal(value, stats[name], name) end
end

describe('a publish with an id to a topic', function()
  local broker, c

  setup(function() broker = Broker.start() end)
  teardown(function() broker:expect_clean_stop() end)
  before_each(function() c = broker:enter_vhost() end)
  after_each(function() c:close() end)

  it('is appended once, and answered with the place of the first', function()
    c:ok 'DECLARE topic t partitions=1'
    local head, place = first(c, 't', 'order-1')
    assert.equal('0:0', place)
    c:send(pub('t', 'order-1', 'other bytes') .. pub('t', 'order-2') .. pub('t', 'order-1'))
    c:expect_line('OK ' .. head .. ' duplicate 0:0')
    c:expect '^OK %x+ 1 0:1$'
    c:expect_line('OK ' .. head .. ' duplicate 0:0')
    expect_stats(c, 't', { messages = 2, published = 2, duplicates = 2, dedupe_ids = 2 })
    assert.matches('^%x+@0 order%-1\n%x+@1 order%-2$', broker:redis_cli('ZRANGE', broker:key('t', 'dedupe'), 0, -1))
  end)

  it('is found whichever partition it went to', function()
    c:ok 'DECLARE topic t partitions=8 sharding=round_robin'
    local heads, places = {}, {}
    for i = 1, 50 do heads[i], places[i] = first(c, 't', 'k' .. i) end
    for i = 1, 50 do expect_duplicate(c, 't', 'k' .. i, heads[i], places[i]) end
    expect_stats(c, 't', { messages = 50, duplicates = 50 })
  end)

  it('is a duplicate when all had it, and else goes to those that had not', function()
    c:ok 'DECLARE exchange news fanout'
    c:ok 'DECLARE topic left partitions=1'
    c:ok 'DECLARE topic late partitions=1'
    c:ok 'DECLARE queue q'
    c:ok 'BIND left news -'
    c:ok 'BIND q news -'
    c:ok('PUB - late', 'm')
    local function publish() return c:request('PUB news - id=n1', 'x') end
    local id = publish():match '^OK (%x+) 2 0:0 topics=1$'
    assert.equal(('OK %s 2 duplicate 0:0 topics=1'):format(id), publish())
    c:ok 'BIND late news -'
    local second = publish()
    assert.matches('^OK %x+ 3 0:[01] topics=2$', second)
    assert.is_nil(second:find(id, 1, true))
    assert.matches('^OK %x+ 3 duplicate 0:[01] topics=2$', publish())
    expect_stats(c, 'left', { messages = 1 })
    expect_stats(c, 'late', { messages = 2 })
    assert.equal(1, c:stats('q').ready)
  end)

  it('is forgotten when the window is over, in Redis too', function()
    c:ok 'DECLARE topic t partitions=1 dedupe=300ms'
    first(c, 't', 'a')
    assert(wait.poll(function() return c:request('PUB - t id=a', 'x'):match '^OK %x+ 1 0:%d+$' end))
    expect_stats(c, 't', { messages = 2 })
    assert(wait.poll(function() return c:stats('t').dedupe_ids == 0 end))
    assert(wait.poll(function() return broker:redis_cli('EXISTS', broker:key('t', 'dedupe')) == '0' end))
  end)

  it('is not looked at with dedupe=0, and dedupe=queued is for queues', function()
    c:ok 'DECLARE topic t partitions=1 dedupe=0'
    for i = 0, 1 do assert.matches('^OK %x+ 1 0:' .. i .. '$', c:request('PUB - t id=a', 'x')) end
    assert.equal('0', broker:redis_cli('EXISTS', broker:key('t', 'dedupe')))
    assert.equal('ERR syntax dedupe=queued: expected a duration up to 1d; 0 remembers no publish ids',
      c:request 'DECLARE topic u dedupe=queued')
    assert.matches('^ERR mismatch .* it has dedupe=0', c:request 'DECLARE topic t partitions=1')
  end)

  it('works in a topic that is in memory alone', function()
    c:ok 'DECLARE topic t partitions=1 durable=0'
    local head, place = first(c, 't', 'a')
    expect_duplicate(c, 't', 'a', head, place)
    assert.equal('0', broker:redis_cli('EXISTS', broker:key('t', 'dedupe')))
    expect_stats(c, 't', { messages = 1, dedupe_ids = 1 })
  end)

  it('may be repeated although the topic no longer ends where expect= says', function()
    c:ok 'DECLARE topic t partitions=1'
    local line = 'PUB - t expect=0 id=a'
    local id = c:request(line, 'x'):match '^OK (%x+) 1 0:0$'
    c:ok('PUB - t', 'y')
    assert.equal(('OK %s 1 duplicate 0:0'):format(id), c:request(line, 'x'))
    assert.matches('^ERR mismatch', c:request('PUB - t expect=0 id=b', 'x'))
    -- What was refused was not seen.
    assert.matches('^OK %x+ 1 0:2$', c:request('PUB - t expect=2 id=b', 'x'))
  end)

  it('is explained', function()
    c:ok 'DECLARE topic t partitions=1 dedupe=1h'
    c:ok('PUB - t', 'm')
    local function explain() return c:document('EXPLAIN - t id=a').queues[1] end
    assert.equal('new', explain().dedupe)
    local head = first(c, 't', 'a')
    local q = explain()
    assert.same({ 'duplicate', 3600000, 0, 1 }, { q.dedupe, q.dedupe_window, q.first_partition, q.first_offset })
    assert.equal(head:match '^%x+', q.first)
    assert.is_true(q.remembered_until > 0)
    expect_stats(c, 't', { messages = 2 })
  end)

  it('is removed with its topic', function()
    c:ok 'DECLARE topic t partitions=3 sharding=round_robin'
    for i = 1, 9 do first(c, 't', 'k' .. i) end
    c:ok 'DELETE topic t'
    assert.equal('', broker:redis_cli('KEYS', ('*%s/t#*'):format(broker.vhost)))
    c:ok 'DECLARE topic t partitions=3 sharding=round_robin'
    for i = 1, 9 do first(c, 't', 'k' .. i) end
  end)

  it('leaves with its topic when it was not yet written', function()
    c:ok 'DECLARE topic t partitions=1'
    broker:redis_cli 'PING'
    local publisher = broker:connect()
    for i = 1, 20 do
      publisher:send(pub('t', 'k' .. i):rep(2))
      c:ok 'DELETE topic t'
      for _ = 1, 2 do publisher:expect '^[OE]' end
      c:ok 'DECLARE topic t partitions=1'
    end
  end)
end)

describe('the ids of a topic outlive', function()
  local broker, c

  setup(function() broker = Broker.start() end)
  teardown(function() broker:destroy() end)
  before_each(function() c = broker:enter_vhost() end)
  after_each(function() c:close() end)

  local function restart_after(how)
    c:close()
    c = broker:restart_after(how)
  end

  for _, how in ipairs { 'expect_clean_stop', 'kill9', 'kill9_all' } do
    it(how, function()
      c:ok 'DECLARE topic t partitions=3 sharding=round_robin'
      local heads, places = {}, {}
      for i = 1, 30 do heads[i], places[i] = first(c, 't', 'k' .. i) end
      restart_after(how)
      for i = 1, 30 do expect_duplicate(c, 't', 'k' .. i, heads[i], places[i]) end
      expect_stats(c, 't', { messages = 30, dedupe_ids = 30 })
    end)
  end

  it('a restart until the window is over, and leave Redis after that', function()
    c:ok 'DECLARE topic t partitions=1 dedupe=2s'
    local lines = {}
    for i = 1, 9000 do lines[i] = ('PUB - t id=%d quiet 0\r\n\r\n'):format(i) end
    c:send(table.concat(lines))
    c:expect_nothing()
    restart_after 'kill9'
    assert(wait.poll(function() return c:request('PUB - t id=1', 'x'):match '^OK %x+ 1 0:9000$' end))
    assert(wait.poll(function() return broker:redis_cli('EXISTS', broker:key('t', 'dedupe')) == '0' end))
    expect_stats(c, 't', { messages = 9001 })
  end)

  it('publishers that repeat what was not confirmed, while both are killed under them', function()
    local seed = require 'support.seed'
    math.randomseed(seed)
    c:ok 'DECLARE topic t partitions=3 sharding=round_robin'
    local confirmed, total, chunk = {}, 600, 60
    for from = 1, total, chunk do
      local pending = {}
      for i = from, from + chunk - 1 do pending[#pending + 1] = 'm' .. i end
      while #pending > 0 do
        for _ = 1, 10 do pending[#pending + 1] = 'm' .. math.random(from + chunk - 1) end
        local lines = {}
        for i, name in ipairs(pending) do lines[i] = pub('t', name) end
        c:send(table.concat(lines))
        local fate = math.random(4)
        if fate == 2 then wait.poll(function() return (pcall(broker.kill9_redis, broker)) end) end
        local count = fate == 1 and math.random(0, #pending) or #pending
        for i = 1, count do
          local name = pending[i]
          local line = c:read_line(30)
          local id, place = line:match '^OK (%x+) 1 .-(%d:%d+)$'
          local known = confirmed[name]
          assert.is_truthy(id, ('seed %d: %s'):format(seed, line))
          if known then assert.equal(('OK %s 1 duplicate %s'):format(known.id, known.place), line, 'seed ' .. seed) end
          confirmed[name] = { id = id, place = place }
        end
        if fate == 1 then restart_after(math.random(2) == 1 and 'kill9' or 'kill9_all') end
        local left = {}
        for i = from, from + chunk - 1 do
          if not confirmed['m' .. i] then left[#left + 1] = 'm' .. i end
        end
        pending = left
      end
    end
    restart_after 'kill9_all'
    expect_stats(c, 't', { messages = total, dedupe_ids = total })
    local seen = {}
    for name, first_one in pairs(confirmed) do
      assert.is_nil(seen[first_one.place], name)
      seen[first_one.place] = true
      expect_duplicate(c, 't', name, first_one.id .. ' 1', first_one.place)
    end
  end)
end)

describe('a repeated publish to a topic whose first is not durable yet', function()
  local broker, redis, c

  before_each(function()
    broker = Broker.start { redis = {} }
    redis = broker.redis
    c = broker:connect()
    c:ok 'DECLARE topic t partitions=1'
  end)
  after_each(function() broker:destroy() end)

  local function limit_memory(pid)
    local writer = io.popen(('redis-cli -s %s CONFIG SET maxmemory 1'):format(redis.path))
    redis:signal('CONT', pid)
    writer:read 'a'
    writer:close()
  end

  it('is confirmed with it, and not before', function()
    local pid = redis:pid()
    local other = broker:connect()
    redis:signal('STOP', pid)
    c:send(pub('t', 'a'))
    other:send(pub('t', 'a'):rep(3))
    other:send '@1 OPEN\r\n@1 PING\r\n'
    other:expect_line '@1 OK'
    other:expect_line '@1 OK'
    redis:signal('CONT', pid)
    local id = c:expect '^OK (%x+) 1 0:0$'
    for _ = 1, 3 do other:expect_line('OK ' .. id .. ' 1 duplicate 0:0') end
    expect_stats(c, 't', { messages = 1 })
  end)

  it('fails with it, and then the id is free', function()
    local pid = redis:pid()
    redis:signal('STOP', pid)
    c:send(pub('t', 'warm') .. 'PING\r\n')
    limit_memory(pid)
    c:drain_until '^OK$'
    c:send(pub('t', 'a'):rep(4))
    for _ = 1, 4 do c:expect '^ERR store .*OOM' end
    expect_stats(c, 't', { dedupe_ids = c:stats('t').messages })
    redis:cli('CONFIG', 'SET', 'maxmemory', '0')
    assert(wait.poll(function() return c:request('PUB - t id=a', 'x'):find '^OK %x+ 1 0:%d$' end))
    assert.matches('duplicate 0:%d$', c:request('PUB - t id=a', 'x'))
  end)

  it('is appended once though the connection to Redis is cut at any time', function()
    local publishers = { broker:connect(), broker:connect() }
    local places = {}
    for round = 1, 10 do
      local lines = {}
      for i = 1, 40 do lines[i] = pub('t', ('r%d-%d'):format(round, i)) end
      for _, p in ipairs(publishers) do p:send(table.concat(lines)) end
      redis:cli('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
      for _, p in ipairs(publishers) do
        for i = 1, 40 do
          local name, place = ('r%d-%d'):format(round, i), p:expect('^OK %x+ 1 .-(%d:%d+)$', 30)
          assert.equal(places[name] or place, place)
          places[name] = place
        end
      end
    end
    expect_stats(c, 't', { messages = 400, dedupe_ids = 400 })
    assert.equal('400', redis:cli('ZCARD', broker:key('t', 'dedupe')))
  end)

  -- Whatever Redis refuses, or may have carried out before its connection was cut: an id
  -- that was confirmed stays a duplicate, and one that was refused has left nothing behind.
  it('agrees with Redis after refusals, cuts and kills', function()
    local seed = require 'support.seed'
    math.randomseed(seed)
    local confirmed = {}
    for _ = 1, 40 do
      local names, lines = {}, {}
      for i = 1, 30 do names[i] = 'n' .. math.random(600) end
      for i, name in ipairs(names) do lines[i] = pub('t', name) end
      local fate = math.random(6)
      if fate <= 2 then redis:cli('CONFIG', 'SET', 'maxmemory', '1') end
      c:send(table.concat(lines))
      if fate == 2 or fate == 3 then redis:cli('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes') end
      if fate == 4 then
        c:close()
        broker:kill9()
        broker:run()
        c = broker:connect()
      else
        for _, name in ipairs(names) do
          local line = c:read_line(30)
          local id, place = line:match '^OK (%x+) 1 .-(%d:%d+)$'
          local known = confirmed[name]
          if known then
            assert.equal(('OK %s 1 duplicate %s'):format(known.id, known.place), line, 'seed ' .. seed)
          elseif id then
            confirmed[name] = { id = id, place = place }
          else
            assert.matches('^ERR store', line, 'seed ' .. seed)
          end
        end
      end
      redis:cli('CONFIG', 'SET', 'maxmemory', '0')
    end
    assert(wait.poll(function() return c:request('PUB - t id=last', 'x'):find '^OK' end))
    broker:kill9()
    broker:run()
    c = broker:connect()
    for name, one in pairs(confirmed) do expect_duplicate(c, 't', name, one.id .. ' 1', one.place) end
    local stats = c:stats 't'
    assert.equal(stats.messages, stats.dedupe_ids, 'seed ' .. seed)
    assert.equal(tostring(stats.messages), redis:cli('ZCARD', broker:key('t', 'dedupe')))
  end)

  it('is refused at the limit of memory, which queues and topics share', function()
    broker:destroy()
    broker = Broker.start { args = { '--max-dedupe-bytes', '64K', '--fsync', 'no' } }
    c = broker:connect()
    c:ok 'DECLARE topic t partitions=1'
    c:ok 'DECLARE queue q'
    local taken = 0
    while taken < 1000 and c:request('PUB - t id=k' .. taken, 'x'):find '^OK' do taken = taken + 1 end
    assert.is_true(taken > 100 and taken < 1000)
    assert.matches('^ERR full remembered publish ids', c:request('PUB - t id=new', 'x'))
    assert.matches('^ERR full remembered publish ids', c:request('PUB - q id=new', 'x'))
    assert.matches('duplicate 0:0$', c:request('PUB - t id=k0', 'x'))
    assert.equal('full', c:document('EXPLAIN - t id=new').queues[1].dedupe)
    c:ok 'DELETE topic t'
    assert(wait.poll(function() return c:request('PUB - q id=new', 'x'):find '^OK %x+ 1$' end))
  end)
end)
