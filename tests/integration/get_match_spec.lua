-- GET match= takes the first message that matches, wherever it stands.
local Broker = require 'support.broker'
local Client = require 'support.client'

for _, kind in ipairs {
  { name = 'on Redis', args = { '--fsync', 'no' } },
  { name = 'in memory', args = { '--store', 'none' } },
} do
  describe('GET match= ' .. kind.name, function()
    local broker, c

    setup(function() broker = Broker.start { args = kind.args } end)
    teardown(function()
      broker:expect_clean_stop()
      broker:destroy()
    end)
    before_each(function() c = broker:enter_vhost() end)
    after_each(function() c:close() end)

    local function payloads(words) return Client.payload_text(c:get(words)) end

    for _, shards in ipairs { 1, 4 } do
      it(('takes the first that matches and leaves the others, over %d shards'):format(shards), function()
        c:ok(('DECLARE queue q shards=%d sharding=round_robin'):format(shards))
        c:publish('q h:tier=silver', 'a', 'b')
        c:publish('q h:tier=gold', 'c', 'd', 'e')
        c:publish('q', 'f')
        assert.equal('c', payloads 'q match=h:tier~go*')
        assert.equal('d e', payloads 'q match=h:tier=gold max=10')
        assert.equal('', payloads 'q match=h:tier=gold max=10')
        assert.equal('f', payloads 'q match=f ack=auto')
        assert.equal(3, c:stats('q').unacked)
        assert.equal('a b', payloads 'q match=key:q max=10')
        c:ok 'NACK 2 requeue'
        assert.equal('d', payloads 'q match=h:tier wait=20s')
      end)
    end

    it('waits for one that comes, by whatever way', function()
      c:ok 'DECLARE queue q'
      c:publish('q', 'other')
      c:send 'GET q match=wanted wait=1h\r\n'
      c:send 'PUB - q 7\r\nanother\r\nPUB - q 8\r\nwanted 1\r\n'
      c:expect_line 'OK 1'
      assert.equal('wanted 1', c:expect_msg().payload)
      c:expect '^OK %x+ 1$'
      c:expect '^OK %x+ 1$'
      -- It returns.
      c:send 'GET q match=wanted wait=1h\r\nNACK 1 requeue\r\n'
      c:expect_line 'OK 1'
      assert.equal('wanted 1', c:expect_msg().payload)
      c:expect_line 'OK 1'
      -- It becomes due.
      c:send 'GET q match=later wait=1h\r\nPUB - q delay=20ms 5\r\nlater\r\n'
      c:expect_line 'OK 1'
      assert.equal('later', c:expect_msg().payload)
      c:expect '^OK %x+ 1$'
    end)

    it('serves each of those that wait', function()
      c:ok 'DECLARE queue q'
      for channel = 1, 3 do
        c:send(('@%d OPEN\r\n@%d GET q match=h:to=%d wait=1h\r\n'):format(channel, channel, channel))
        c:expect_line(('@%d OK'):format(channel))
      end
      for _, to in ipairs { 2, 3, 1 } do
        c:send(('PUB - q h:to=%d quiet 1\r\n%d\r\n'):format(to, to))
        c:expect_line(('@%d OK 1'):format(to))
        assert.equal(tostring(to), c:expect_msg(nil, to).payload)
      end
    end)

    it('stands in nobody else\'s way', function()
      c:ok 'DECLARE queue q'
      c:send '@1 OPEN\r\n@1 GET q match=never wait=1h\r\n'
      c:expect_line '@1 OK'
      c:publish('q', 'a', 'b')
      assert.equal('a', payloads 'q')
      assert.equal('b', payloads 'q wait=1h')
      c:send '@1 CLOSE\r\n'
      c:expect_line '@1 OK 0'
      c:expect_line '@1 OK'
    end)

    it('ends with nothing after its time, or with its queue', function()
      c:ok 'DECLARE queue q'
      c:publish('q', 'a')
      c:expect_answer('GET q match=b', 'OK 0')
      c:expect_answer('GET q match=b wait=30ms', 'OK 0')
      c:send '@1 OPEN\r\n@1 GET q match=b wait=1h\r\n'
      c:expect_line '@1 OK'
      c:send 'DELETE queue q\r\n'
      c:expect_line "@1 ERR not-found queue 'q' was deleted"
      c:expect_line 'OK'
    end)

    it('waits while the queue is paused', function()
      c:ok 'DECLARE queue q'
      c:publish('q', 'a')
      c:ok 'PAUSE q out'
      c:expect_answer('GET q match=a', 'OK 0')
      c:send '@1 OPEN\r\n@1 GET q match=a wait=1h\r\n'
      c:expect_line '@1 OK'
      broker:connect():ok 'RESUME q'
      c:expect_line '@1 OK 1'
      assert.equal('a', c:expect_msg(nil, 1).payload)
    end)

    it('leaves the turns of a priority script as they are', function()
      c:ok 'DECLARE queue q priority=strict'
      for i = 1, 9 do c:ok('PUB - q pri=' .. i, tostring(i)) end
      assert.equal('3', payloads 'q match=3 ack=auto')
      assert.equal('9 8 7 6 5 4 2 1', payloads 'q max=10 ack=auto')
    end)

    it('says what is wrong', function()
      c:ok 'DECLARE queue q'
      c:expect_answer('GET q match=', 'ERR syntax match=: expected <text>, text:<text>, key:<pattern>, '
        .. 'h:<name>, h:<name>=<value>, h:<name>~<glob> or lua:<expression>')
      c:expect_answer('GET nobody match=x',
        "ERR not-found there is no queue 'nobody' in vhost '" .. broker.vhost .. "'")
    end)
  end)
end

describe('GET match=', function()
  it('finds in a backlog what comes near the front, and returns what was held by a killed broker', function()
    local broker = Broker.start { args = { '--window-messages', '16' } }
    local c = broker:connect()
    c:ok 'DECLARE queue q'
    for i = 1, 200 do c:send(('PUB - q %d\r\n<%d>\r\n'):format(#tostring(i) + 2, i)) end
    for _ = 1, 200 do c:expect '^OK %x+ 1$' end
    assert.equal('<150>', c:get('q match=<150>')[1].payload)
    c:expect_answer('GET q match=<150>', 'OK 0')
    c:expect_answer('GET q match=<150> wait=10ms', 'OK 0')
    c:send '@1 OPEN\r\n@1 GET q match=<160> wait=1h\r\n@1 GET q match=new wait=1h\r\n'
    c:expect_line '@1 OK'
    c:expect_line '@1 OK 1'
    assert.equal('<160>', c:expect_msg(nil, 1).payload)
    local taker, got = broker:connect(), 0
    taker:send 'PUB - q 3\r\nnew\r\n'
    taker:expect '^OK %x+ 1$'
    while got < 198 do got = got + #taker:get(('q max=%d ack=auto wait=20s'):format(math.min(10, 198 - got))) end
    c:expect_line '@1 OK 1'
    assert.equal('new', c:expect_msg(nil, 1).payload)
    broker:kill9_all()
    broker:run()
    c = broker:connect()
    assert.equal('<150>', c:get('q match=<150> wait=20s')[1].payload)
    broker:expect_clean_stop()
    broker:destroy()
  end)

  it('gives each of many askers another message of the backlog', function()
    local broker = Broker.start { args = { '--window-messages', '16', '--fsync', 'no' } }
    local c = broker:connect()
    c:ok 'DECLARE queue q shards=2 sharding=round_robin'
    for i = 1, 400 do c:send(('PUB - q %s quiet 1\r\nx\r\n'):format(i > 300 and 'h:t=late' or 'h:t=early')) end
    c:expect_nothing()
    local seen = {}
    for channel = 1, 20 do c:send(('@%d OPEN\r\n'):format(channel)) end
    for channel = 1, 20 do c:expect_line(('@%d OK'):format(channel)) end
    for channel = 1, 20 do c:send(('@%d GET q match=h:t~l*\r\n'):format(channel)) end
    for _ = 1, 20 do
      local channel = tonumber(c:expect '^@(%d+) OK 1$')
      local m = c:expect_msg(nil, channel)
      assert.is_nil(seen[m.options.id])
      seen[m.options.id] = true
    end
    assert.equal(20, c:stats('q').unacked)
    -- One that asks for what is not there is answered, though others take what it looks at.
    c:send '@1 GET q match=none\r\n@2 GET q match=none wait=1h\r\n'
    c:expect_line '@1 OK 0'
    c:send '@2 CLOSE\r\n'
    c:expect_line '@2 OK 0'
    c:expect_line '@2 OK'
    broker:expect_clean_stop()
    broker:destroy()
  end)

  it('looks at all messages in memory, too', function()
    local broker = Broker.start { args = { '--store', 'none' } }
    local c = broker:connect()
    c:ok 'DECLARE queue q'
    c:send(('PUB - q quiet 1\r\nx\r\n'):rep(20000) .. 'PUB - q quiet 4\r\nlast\r\n')
    c:expect_nothing()
    c:expect_answer('GET q match=none', 'OK 0')
    assert.equal('last', c:get('q match=last')[1].payload)
    broker:expect_clean_stop()
    broker:destroy()
  end)
end)
