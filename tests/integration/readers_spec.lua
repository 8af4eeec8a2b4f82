-- Readers of a topic: SUB without a group.
local Broker = require 'support.broker'
local topics = require 'support.topics'

local expect_payloads = topics.expect_payloads

describe('a reader of a topic', function()
  local broker, c, p

  setup(function() broker = Broker.start { args = { '--fsync', 'no' } } end)
  teardown(function() broker:expect_clean_stop() end)
  before_each(function()
    c = broker:enter_vhost()
    p = broker:connect()
  end)
  after_each(function()
    c:close()
    p:close()
  end)

  local function publish(...) topics.publish(p, ...) end

  it('gets what comes from now on', function()
    c:ok 'DECLARE topic t partitions=1'
    publish 'a'
    c:ok 'SUB t s'
    publish('b', 'c')
    expect_payloads(c, 'b', 'c')
    assert.equal('2', c:ok 'ACK 1-2')
  end)

  it('gets all that there is by from=first, and each of several gets it', function()
    c:ok 'DECLARE topic t partitions=4'
    for i = 1, 20 do publish('m' .. i) end
    for _, sid in ipairs { 's1', 's2' } do
      c:ok(('SUB t %s from=first ack=auto'):format(sid))
      local seen = {}
      for _ = 1, 20 do
        local m = c:expect_msg()
        assert.equal('-', m.tag)
        local at = m.options.partition .. ':' .. m.options.offset
        assert.is_nil(seen[at])
        seen[at] = m.payload
      end
    end
    assert.equal(2, c:stats('t').readers)
    assert.same({}, c:document 'LIST groups')
  end)

  it('may read one partition alone, from an offset on', function()
    c:ok 'DECLARE topic t partitions=2'
    local at = {}
    for i = 1, 20 do
      local partition, offset = p:ok('PUB - t h:n=' .. i, tostring(i)):match '(%d+):(%d+)$'
      at[partition] = tonumber(offset)
    end
    c:ok 'SUB t s partition=0 from=1 ack=auto'
    for offset = 1, at['0'] or 0 do
      local m = c:expect_msg()
      assert.equal('0', m.options.partition)
      assert.equal(tostring(offset), m.options.offset)
    end
    c:expect_nothing()
  end)

  it('commits nothing', function()
    c:ok 'DECLARE topic t partitions=1'
    publish('a', 'b')
    c:ok 'SUB t s from=first'
    expect_payloads(c, 'a', 'b')
    c:ok 'ACK 1-2'
    c:ok 'UNSUB s'
    c:ok 'SUB t s from=first'
    expect_payloads(c, 'a', 'b')
    assert.equal('0', broker:redis_cli('EXISTS', ('tide:{%s/t#0}:groups'):format(broker.vhost)))
  end)

  it('may settle what it holds after UNSUB', function()
    c:ok 'DECLARE topic t partitions=1'
    publish('a', 'b')
    c:ok 'SUB t s from=first'
    expect_payloads(c, 'a', 'b')
    c:ok 'UNSUB s'
    assert.equal('1', c:ok 'ACK 2')
    assert.equal('1', c:ok 'NACK 1')
    assert.equal(0, c:stats('t').readers)
    c:expect_nothing()
  end)

  it('leaves no dead letter behind when it goes away', function()
    c:ok 'DECLARE queue dead'
    c:ok 'DECLARE topic t partitions=1 delivery-limit=1 dead-letter=-/dead'
    publish('a', 'b')
    c:send '@1 OPEN\r\n@1 SUB t s from=first\r\n'
    c:expect_line '@1 OK'
    c:expect_line '@1 OK'
    c:expect_msg(nil, 1)
    c:expect_msg(nil, 1)
    c:send '@1 CLOSE\r\n'
    c:expect_line '@1 OK'
    assert.equal(0, c:stats('t').dead_lettered)
    assert.same({}, c:get 'dead')
  end)

  it('gets a message again that it has refused', function()
    c:ok 'DECLARE topic t partitions=1'
    publish 'a'
    c:ok 'SUB t s from=first'
    expect_payloads(c, 'a')
    c:ok 'NACK 1'
    assert.equal(2, c:expect_msg().attempt)
  end)

  it('is told what it has missed, because it is no longer kept', function()
    -- In memory alone a partition keeps its newest 16 MiB.
    c:ok 'DECLARE topic t partitions=1 durable=0'
    publish('a', 'b')
    c:ok 'SUB t s from=first prefetch=1'
    expect_payloads(c, 'a')
    local count, large = 40, ('x'):rep(1000000)
    for _ = 1, count do publish(large) end
    local start = p:stats('t').per_partition[1].start
    assert.is_true(start > 1)
    c:send 'ACK 1\r\n'
    c:expect_line 'OK 1'
    c:expect_line('EVT skipped s 0 1 ' .. start)
    for offset = start, count + 1 do
      local m = c:expect_msg()
      assert.equal(tostring(offset), m.options.offset)
      c:send(('ACK %s quiet\r\n'):format(m.tag))
    end
    c:expect_nothing()
  end)

  it('is told so of what it has refused, too', function()
    c:ok 'DECLARE topic t partitions=1 durable=0'
    publish('a', 'b')
    c:ok 'SUB t s from=first prefetch=2'
    expect_payloads(c, 'a', 'b')
    for _ = 1, 40 do publish(('x'):rep(1000000)) end
    local start = p:stats('t').per_partition[1].start
    c:send 'NACK 1 requeue\r\n'
    c:expect_line 'OK 1'
    c:expect_line('EVT skipped s 0 0 ' .. start)
    assert.equal(tostring(start), c:expect_msg().options.offset)
  end)

  it('catches up from Redis, in order and without a gap, while more comes', function()
    c:ok 'DECLARE topic t partitions=1'
    local count, payload = 3000, ('x'):rep(200)
    for i = 1, count do p:send(('PUB - t quiet %d\r\n%d %s\r\n'):format(#payload + #tostring(i) + 1, i, payload)) end
    p:ok 'PING'
    broker:restart()
    c, p = broker:connect(), broker:connect()
    c:ok 'SUB t s from=first ack=auto'
    for i = count + 1, count + 100 do p:send(('PUB - t quiet %d\r\n%d \r\n'):format(#tostring(i) + 1, i)) end
    for i = 1, count + 100 do
      local m = c:expect_msg()
      assert.equal(tostring(i), m.payload:match '^%d+')
      assert.equal(tostring(i - 1), m.options.offset)
    end
  end)
end)
