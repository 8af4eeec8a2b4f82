-- PUB durable=0: a message that is kept in memory alone, in a queue that is durable.
local Broker = require 'support.broker'
local Http = require 'support.http'
local Stomp = require 'support.stomp'

describe('a message with durable=0', function()
  local broker, c

  setup(function() broker = Broker.start { http = '127.0.0.1:0' } end)
  teardown(function()
    broker:expect_clean_stop()
    broker:destroy()
  end)
  before_each(function() c = broker:enter_vhost() end)
  after_each(function() c:close() end)

  local function publish(words, ...)
    for _, payload in ipairs { ... } do
      c:send(('PUB - %s %d\r\n%s\r\n'):format(words, #payload, payload))
      c:expect '^OK %x+ 1$'
    end
  end

  local function of_shards()
    local list = {}
    for i, s in ipairs(c:stats('q').per_shard) do
      list[i] = ('%d: %d %d %d %d'):format(s.shard, s.ready, s.delayed, s.unacked, s.buried)
    end
    return table.concat(list, ', ')
  end

  it('is never in Redis, in whatever state it is', function()
    c:ok 'DECLARE queue q'
    publish('q durable=0', 'a', 'b', 'c')
    publish('q durable=0 delay=1h', 'd')
    for _ = 1, 2 do c:get 'q' end
    c:ok 'NACK 1 bury'
    c:ok 'NACK 2 delay=1h'
    c:get 'q'
    assert.equal('0: 0 0 0 0, 64: 0 2 1 1', of_shards())
    publish('q', 'kept')
    assert.equal('1', broker:redis_cli('HLEN', broker:key('q', 'msg')))
    for _, set in ipairs { 'delayed', 'unack', 'buried', 'tries' } do
      assert.equal('0', broker:redis_cli('EXISTS', broker:key('q', set)))
    end
  end)

  for _, options in ipairs { 'shards=1', 'shards=3', 'priority=strict', 'priority=fair priority.by=t' } do
    it('has its place among the others, with ' .. options, function()
      c:ok('DECLARE queue q ' .. options)
      for i = 1, 4 do
        publish('q', 'd' .. i)
        publish('q durable=0', 't' .. i)
      end
      assert.equal('d1 t1 d2 t2 d3 t3 d4 t4', c.payload_text(c:get 'q max=10'))
      c:ok 'NACK 1-8 requeue'
      assert.equal('d1 t1 d2 t2 d3 t3 d4 t4', c.payload_text(c:get 'q max=10 ack=auto'))
      publish('q', 'e', 'f')
      assert.equal('e f', c.payload_text(c:get 'q max=10'))
    end)
  end

  it('is found, changed and removed as all others', function()
    c:ok 'DECLARE queue q'
    publish('q', 'a')
    publish('q durable=0', 'b', 'c', 'd')
    local shown = c:document 'PEEK q 10'.messages
    assert.equal(4, #shown)
    assert.equal(64, shown[2].shard)
    local id = shown[2].id
    assert.equal('b', c:document('FIND q ' .. id).payload)
    c:expect_answer(('RESCHEDULE q %s delay=1h'):format(id), 'OK 1')
    c:expect_answer(('GET q id=%s'):format(shown[3].id), 'OK 1')
    assert.equal('c', c:expect_msg().payload)
    c:expect_answer('NACK 1 bury', 'OK 1')
    c:expect_answer('KICK q', 'OK 1')
    c:expect_answer('REMOVE q match=d', 'OK 1')
    c:expect_answer('PURGE q', 'OK 3')
    assert.equal('0: 0 0 0 0, 64: 0 0 0 0', of_shards())
  end)

  it('counts for limits, and may be dropped', function()
    c:ok 'DECLARE queue q max-length=3 overflow=drop-head'
    publish('q durable=0', 'a', 'b')
    publish('q', 'c', 'd')
    publish('q durable=0', 'e')
    assert.equal('c d e', c.payload_text(c:get 'q max=10'))
    c:ok 'DECLARE queue r max-length=1 max-bytes=10'
    publish('r durable=0', 'a')
    c:send 'PUB - r durable=0 1\r\nb\r\n'
    c:expect '^ERR full '
  end)

  it('stays one when it dies, is settled in a transaction, or follows a change of shards', function()
    c:ok 'DECLARE queue dead'
    c:ok 'DECLARE queue q dead-letter=-/dead'
    publish('q durable=0', 'a', 'b')
    c:get 'q max=2'
    c:ok 'NACK 1 dead'
    assert.equal('a', c.payload_text(c:get 'dead wait=20s'))
    c:ok 'BEGIN'
    c:send 'PUB - q durable=0 1\r\nc\r\nACK 2\r\nCOMMIT\r\n'
    for _ = 1, 3 do c:expect '^OK' end
    c:ok 'DECLARE queue q shards=4 update'
    publish('q', 'd')
    publish('q durable=0', 'e')
    assert.equal('c d e', c.payload_text(c:get 'q max=10'))
    assert.equal('0', broker:redis_cli('EXISTS', broker:key('dead', 'msg')))
    c:ok 'ACK 3-6'
    assert.equal(0, c:stats('q').unacked)
  end)

  it('is kept as others where its place depends on that', function()
    c:ok 'DECLARE queue q order-by=key'
    c:ok 'DECLARE queue r'
    publish('q durable=0', 'a')
    publish('r durable=0 id=x', 'b')
    c:expect_answer('PUB - r durable=0 id=x 1\r\nb', ('OK %s 1 duplicate'):format(c:document('PEEK r').messages[1].id))
    assert.equal('1', broker:redis_cli('HLEN', broker:key('q', 'msg')))
    assert.equal('1', broker:redis_cli('HLEN', broker:key('r', 'msg')))
    c:ok 'DECLARE topic t partitions=1'
    c:send 'PUB - t durable=0 1\r\na\r\n'
    c:expect '^OK %x+ 1 0:0$'
    c:ok 'DECLARE queue m durable=0'
    publish('m durable=0', 'a')
    assert.equal(1, #c:stats('m').per_shard)
  end)

  it('is explained', function()
    c:ok 'DECLARE queue q'
    assert.is_true(c:document('EXPLAIN - q').queues[1].durable)
    assert.is_false(c:document('EXPLAIN - q durable=0').queues[1].durable)
    c:send 'PUB - q durable=2 1\r\na\r\n'
    c:expect '^ERR syntax '
  end)

  it('is published by every door', function()
    c:ok 'DECLARE queue q'
    local http = Http.connect(broker)
    local path = ('/api/vhosts/%s/exchanges/-/publish'):format(broker.vhost)
    http:expect(200, 'POST', path, { key = 'q', payload = 'a', durable = false })
    http:expect(200, 'POST', path, { key = 'q', payload = 'b', durable = true })
    http:expect_error(400, 'syntax', 'POST', path, { key = 'q', payload = 'b', durable = 0 })
    http:close()
    local out, status = broker:cli('pub', '-', 'q', 'c', '--durable', '0')
    assert.equal(0, status, out)
    local vhost = broker.vhost
    broker.vhost = nil -- no HELLO before
    local s = Stomp.connect(broker, { host = vhost })
    broker.vhost = vhost
    s:frame('SEND', { destination = '/queue/q', persistent = 'false', receipt = '1' }, 'd')
    s:expect 'RECEIPT'
    s:frame('SEND', { destination = '/queue/q', persistent = 'true', receipt = '2' }, 'e')
    s:expect 'RECEIPT'
    s:close()
    assert.equal('0: 2 0 0 0, 64: 3 0 0 0', of_shards())
    assert.equal('a b c d e', c.payload_text(c:get 'q max=9'))
  end)
end)

describe('a message with durable=0', function()
  local broker
  after_each(function() broker:destroy() end)

  for _, how in ipairs { 'kill9', 'expect_clean_stop' } do
    it('is lost with the broker, and no other is: ' .. how, function()
      broker = Broker.start()
      local c = broker:connect()
      c:ok 'DECLARE queue q'
      for i = 1, 3 do
        c:ok('PUB - q', 'd' .. i)
        c:ok('PUB - q durable=0', 't' .. i)
      end
      c:get 'q max=2'
      broker[how](broker)
      broker:run()
      c = broker:connect()
      assert.equal('d1 d2 d3', c.payload_text(c:get 'q max=10'))
      c:ok('PUB - q durable=0', 't')
      assert.equal('t', c.payload_text(c:get 'q max=10'))
      c:ok 'DELETE queue q'
    end)
  end

  it('is confirmed and delivered while Redis is away', function()
    broker = Broker.start()
    local c = broker:connect()
    c:ok 'DECLARE queue q'
    local redis = broker:redis_pid()
    os.execute('kill -STOP ' .. redis)
    c:ok('PUB - q durable=0', 'a')
    assert.equal('a', c.payload_text(c:get 'q ack=auto'))
    os.execute('kill -CONT ' .. redis)
  end)
end)
