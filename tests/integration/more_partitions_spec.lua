-- DECLARE topic … partitions=<more> update: a topic gets more partitions while it is in use.
local Broker = require 'support.broker'
local Http = require 'support.http'
local topics = require 'support.topics'
local wait = require 'support.wait'

describe('a topic that gets more partitions', function()
  local broker, c

  setup(function() broker = Broker.start { http = '127.0.0.1:0', args = { '--fsync', 'no' } } end)
  teardown(function() broker:expect_clean_stop() end)
  before_each(function() c = broker:enter_vhost() end)
  after_each(function() c:close() end)

  local function group(name) return topics.group(c, name or 'g') end

  local function declare(options) c:ok('DECLARE topic t sharding=round_robin ' .. options) end
  local function widen(n) c:ok(('DECLARE topic t partitions=%d update'):format(n)) end

  --- One message into each partition, by the round robin.
  local function fill(client, from, to)
    local by_partition = {}
    for i = from, to do
      local partition = client:ok('PUB - t', tostring(i)):match ' (%d+):%d+$'
      by_partition[tonumber(partition)] = true
    end
    return by_partition
  end

  local function take(client, n)
    local got = {}
    for _ = 1, n do
      local m = client:expect_msg()
      assert.is_nil(got[m.payload])
      got[m.payload] = true
    end
    return got
  end

  for _, durable in ipairs { 0, 1 } do
    describe('durable=' .. durable .. ',', function()
      it('shares the new ones among the members of its groups at once', function()
        declare('partitions=2 durable=' .. durable)
        local publisher, other = broker:connect(), broker:connect()
        topics.sub(c, 's group=g ack=auto', '0,1')
        other:send 'SUB t r group=g ack=auto\r\n'
        c:expect_line 'EVT assigned s 0'
        other:expect_line 'OK'
        other:expect_line 'EVT assigned r 1'
        fill(publisher, 1, 4)
        take(c, 2)
        take(other, 2)
        publisher:ok 'DECLARE topic t partitions=6 update'
        c:expect_line 'EVT assigned s 0,2,3'
        other:expect_line 'EVT assigned r 1,4,5'
        local used = fill(publisher, 5, 16)
        for i = 0, 5 do assert.is_true(used[i]) end
        take(c, 6)
        take(other, 6)
        assert(wait.poll(function() return topics.group(publisher, 'g').lag == 0 end))
        assert.equal(6, #publisher:stats('t').per_partition)
        assert.equal(16, publisher:stats('t').messages)
        publisher:close()
        other:close()
      end)

      it('gives them to a reader, and to a GET that waits', function()
        declare('partitions=1 durable=' .. durable)
        local publisher, getter = broker:connect(), broker:connect()
        c:ok 'SUB t all ack=auto'
        getter:send 'GET t group=pull wait=1h ack=auto\r\n'
        assert(wait.poll(function() return topics.group(publisher, 'pull') end))
        publisher:ok 'DECLARE topic t partitions=3 update'
        repeat until not publisher:ok('PUB - t', 'x'):find(' 0:', 1, true)
        getter:expect_line 'OK 1'
        getter:close()
        c:expect_msg()
        publisher:close()
      end)

      it('loses nothing for a group without members, wherever its next one begins', function()
        declare('partitions=2 durable=' .. durable)
        fill(c, 1, 2)
        for i = 1, 2 do assert.equal(1, #c:get('t group=g ack=auto'), i) end
        widen(4)
        fill(c, 3, 10)
        if durable == 1 then
          assert(wait.poll(function() return broker:redis_cli('HGET',
            ('tide:{%s/t#1}:groups'):format(broker.vhost), 'g') == '1' end))
          broker:kill9_all()
          broker:run()
          c = broker:connect()
        end
        assert.equal(8, group().lag)
        c:ok 'SUB t s group=g from=last ack=auto'
        c:expect_line 'EVT assigned s 0,1,2,3'
        take(c, 8)
      end)
    end)
  end

  it('keeps the messages of a key in order from then on', function()
    c:ok 'DECLARE topic t partitions=2'
    c:ok 'DECLARE exchange x topic'
    c:ok 'BIND t x #'
    widen(8)
    local partitions = {}
    for i = 1, 64 do
      local key = 'key-' .. i % 16
      local partition = c:ok('PUB x ' .. key, 'x'):match ' (%d+):%d+$'
      assert.equal(partitions[key] or partition, partition)
      partitions[key] = partition
    end
  end)

  it('goes on to commit what is on its way, of all partitions', function()
    declare 'partitions=2'
    fill(c, 1, 20)
    c:ok 'SUB t s group=g prefetch=100'
    c:expect_line 'EVT assigned s 0,1'
    for _ = 1, 20 do c:expect_msg() end
    c:send 'ACK 1-20\r\nDECLARE topic t partitions=64 update\r\n'
    c:expect_line 'OK 20'
    c:expect '^EVT assigned s 0,1,2,'
    c:expect_line 'OK'
    c:ok 'UNSUB s'
    for i = 0, 1 do
      assert(wait.poll(function() return broker:redis_cli('HGET',
        ('tide:{%s/t#%d}:groups'):format(broker.vhost, i), 'g') == '10' end))
    end
    fill(c, 21, 84)
    c:ok 'SUB t s group=g ack=auto'
    c:expect '^EVT assigned s 0,1,2,'
    take(c, 64)
  end)

  it('knows its publish ids, and holds what nobody has read', function()
    declare 'partitions=1 keep-unread=g retention-count=2'
    local first = c:ok('PUB - t id=a', 'x')
    widen(4)
    assert.equal(first:gsub(' 0:0$', ' duplicate 0:0'), c:ok('PUB - t id=a', 'x'))
    fill(c, 1, 40)
    assert(wait.poll(function() return c:stats('t').per_partition[4].held_back end))
    assert.equal(41, c:stats('t').messages)
  end)

  it('loses nothing that was confirmed, whenever it is killed', function()
    for round = 1, 6 do
      if not broker:is_running() then broker:run() end
      c:close()
      c = broker:enter_vhost()
      declare 'partitions=2'
      fill(c, 1, 10)
      local writer = broker:connect()
      local lines = {}
      for i = 11, 60 do
        lines[#lines + 1] = ('PUB - t %d\r\n%d\r\n'):format(#tostring(i), i)
        if i == 30 then lines[#lines + 1] = 'DECLARE topic t partitions=16 update\r\n' end
      end
      writer:send(table.concat(lines))
      local confirmed = 0
      for _ = 1, round * 8 do
        writer:expect '^OK'
        confirmed = confirmed + 1
      end
      local payloads = confirmed > 20 and confirmed - 1 or confirmed
      broker:kill9_all()
      writer:close()
      c:close()
      broker:run()
      c = broker:connect()
      local width = #c:stats('t').per_partition
      assert.is_true(width == 2 or width == 16)
      if confirmed > 20 then assert.equal(16, width) end
      local seen = {}
      local page = c:document 'PEEK t 100 newest'
      for _, m in ipairs(page.messages) do seen[tonumber(m.payload)] = true end
      for i = 1, 10 + payloads do assert.is_true(seen[i], ('round %d: message %d'):format(round, i)) end
      widen(17)
      fill(c, 100, 120)
    end
  end)

  it('is unchanged if Redis refuses', function()
    declare 'partitions=2'
    broker:redis_cli('CONFIG', 'SET', 'maxmemory', '1')
    local answer = c:request 'DECLARE topic t partitions=4 update'
    broker:redis_cli('CONFIG', 'SET', 'maxmemory', '0')
    assert.matches('^ERR store', answer)
    assert.equal(2, #c:stats('t').per_partition)
    assert(wait.poll(function() return c:request 'DECLARE topic t partitions=4 update' == 'OK' end))
    assert.equal(4, #c:stats('t').per_partition)
  end)

  it('is widened over HTTP and by the command line', function()
    declare 'partitions=2'
    Http.connect(broker):expect(200, 'PUT', ('/api/vhosts/%s/topics/t'):format(broker.vhost),
      { options = { partitions = 3 }, update = true })
    assert.equal(3, #c:stats('t').per_partition)
    assert.equal(0, select(2, broker:cli('declare', 'topic', 't', 'partitions=5', 'update=1')))
    assert.equal(5, #c:stats('t').per_partition)
    assert.equal(5, tonumber(broker:redis_cli('SCARD', ('{tide}:%s:topic:t'):format(broker.vhost))))
  end)

  it('cannot have fewer', function()
    declare 'partitions=4'
    local function keeps(topic, why)
      return ("ERR mismatch topic '%s' cannot change so: it keeps %s; declare a topic of another name")
        :format(topic, why)
    end
    c:expect_answer('DECLARE topic t partitions=3 update', keeps('t', 'partitions=4, because its messages stay in '
      .. 'their partitions: there can be more of them, but not fewer'))
    c:expect_answer('DECLARE topic t sharding=round_robin partitions=8', "ERR mismatch topic 't' exists with other "
      .. 'options: it has partitions=4, not partitions=8; the option update changes that')
    assert.matches('^ERR syntax partitions=65', c:request 'DECLARE topic t partitions=65 update')
    c:ok 'DECLARE topic table partitions=2 compact=key'
    c:expect_answer('DECLARE topic table partitions=4 update', keeps('table', 'partitions=2, because with compact=key '
      .. 'each partition would keep a message of one key'))
  end)
end)
