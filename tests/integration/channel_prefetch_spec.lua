-- OPEN prefetch=: a limit for all subscriptions of a channel; SUB rank= orders them.
local Broker = require 'support.broker'
local Client = require 'support.client'
local wait = require 'support.wait'

for _, durable in ipairs { '1', '0' } do
  describe(('a channel with a prefetch, durable=%s'):format(durable), function()
    local broker, c, d

    setup(function() broker = Broker.start { args = { '--fsync', 'no', '--window-messages', '16' } } end)
    teardown(function() broker:expect_clean_stop() end)
    before_each(function()
      c = broker:enter_vhost()
      d = broker:connect()
      for _, name in ipairs { 'high', 'middle', 'low' } do
        c:ok(('DECLARE queue %s shards=2 durable=%s'):format(name, durable))
      end
    end)
    after_each(function()
      c:close()
      d:close()
    end)

    local function publish(queue, n)
      for _ = 1, n or 1 do c:send(('PUB - %s quiet 1\r\nx\r\n'):format(queue)) end
      c:expect_nothing()
    end
    local function open(prefetch, ...)
      d:send(('@1 OPEN prefetch=%d\r\n'):format(prefetch))
      d:expect_line '@1 OK'
      for _, words in ipairs { ... } do
        d:send(('@1 SUB %s\r\n'):format(words))
        d:expect_line '@1 OK'
      end
    end
    --- Settle quietly, and name the sids of the next n messages; then there are no more.
    local function after(request, n)
      if request then d:send('@1 ' .. request .. ' quiet\r\n') end
      local sids = {}
      for i = 1, n do sids[i] = d:expect_msg(nil, 1).sid end
      -- A whole turn comes before the second answer.
      d:expect_nothing()
      d:expect_nothing()
      return table.concat(sids, ' ')
    end

    it('holds no more than that, whatever its subscriptions may', function()
      open(3, 'high h', 'low l')
      publish('high', 2)
      publish('low', 2)
      assert.equal('h h l', after(nil, 3))
      d:ok 'SUB high free' -- another channel
      publish 'high'
      assert.equal('free', d:expect_msg().sid)
      assert.equal('l', after('ACK 1', 1))
      assert.equal('', after('ACK 2-4', 0))
    end)

    it('holds no more than its subscriptions may', function()
      open(10, 'high h prefetch=1', 'low l prefetch=2')
      publish('high', 9)
      publish('low', 9)
      assert.equal('h l l', after(nil, 3))
      assert.equal('h', after('ACK 1', 1))
      assert.equal('l l', after('ACK 2 3', 2))
    end)

    it('does not count GET and auto acks', function()
      open(1, 'high h', 'low l ack=auto')
      publish('high', 2)
      publish('low', 2)
      local sids = {}
      for _ = 1, 3 do
        local sid = d:expect_msg(nil, 1).sid
        sids[sid] = (sids[sid] or 0) + 1
      end
      assert.same({ h = 1, l = 2 }, sids)
      d:send '@1 GET high\r\n'
      d:expect_line '@1 OK 1'
      assert.equal('-', d:expect_msg(nil, 1).sid)
    end)

    it('takes from the lowest rank that has messages', function()
      open(1, 'low l rank=3', 'middle m rank=2', 'high h rank=1')
      publish('low', 3)
      assert.equal('l', after(nil, 1))
      publish('middle', 3)
      assert.equal('m', after('ACK 1', 1))
      publish('high', 2)
      assert.equal('h', after('ACK 2', 1))
      assert.equal('h', after('ACK 3', 1))
      assert.equal('m', after('ACK 4', 1))
      publish('high', 1)
      assert.equal('h', after('ACK 5', 1))
      assert.equal('m', after('ACK 6', 1))
      assert.equal('l', after('ACK 7', 1))
      assert.equal('l', after('ACK 8', 1))
      assert.equal('', after('ACK 9', 0))
    end)

    it('gives all credit that comes back to the lowest rank first', function()
      open(6, 'low l rank=9', 'middle m rank=5', 'high h rank=0')
      publish('low', 20)
      assert.equal('l l l l l l', after(nil, 6))
      publish('high', 2)
      publish('middle', 3)
      assert.equal('h h m m m l', after('ACK 1-6', 6))
    end)

    it('orders subscriptions that come together', function()
      publish('low', 2)
      publish('high', 2)
      d:send '@1 OPEN prefetch=3\r\n@1 SUB low l rank=2\r\n@1 SUB high h rank=1\r\n'
      for _ = 1, 3 do d:expect_line '@1 OK' end
      assert.equal('h h l', after(nil, 3))
    end)

    it('goes round among equals, and what has no rank comes last', function()
      open(1, 'low none', 'middle m rank=1', 'high h rank=1')
      publish('low', 2)
      assert.equal('none', after(nil, 1))
      publish('middle', 2)
      publish('high', 2)
      local sids = {}
      for i = 1, 5 do sids[i] = after('ACK ' .. i, 1) end
      assert.equal('m h m h none', table.concat(sids, ' '))
    end)

    it('keeps to the rank from the backlog', function()
      publish('low', 100)
      publish('high', 100)
      open(5)
      d:send '@1 SUB low l rank=2\r\n@1 SUB high h rank=1\r\n'
      for _ = 1, 2 do d:expect_line '@1 OK' end
      local sids = {}
      for tag = 1, 200 do
        sids[tag] = d:expect_msg(nil, 1).sid
        d:send(('@1 ACK %d quiet\r\n'):format(tag))
      end
      assert.equal(('h'):rep(100) .. ('l'):rep(100), table.concat(sids))
    end)

    it('gives the credit to the next when another consumer takes the message', function()
      local other = broker:connect()
      open(1, 'low l rank=2', 'high h rank=1')
      publish('low', 2)
      assert.equal('l', after(nil, 1))
      publish 'high' -- which high now waits for
      assert.equal('', after(nil, 0))
      other:get 'high'
      assert.equal('l', after('ACK 1', 1))
      other:close()
    end)

    it('gets its credit back from NACK, timeouts and what was unsubscribed', function()
      c:ok('DECLARE queue short ack-timeout=500ms retry=none durable=' .. durable)
      open(1, 'short s rank=1', 'low l rank=2')
      publish('low', 3)
      publish 'short'
      assert.equal('l', after(nil, 1))
      assert.equal('s', after('NACK 1 dead', 1))
      assert.equal('l', d:expect_msg(nil, 1).sid) -- the lease of s ran out
      d:send '@1 UNSUB l\r\n@1 SUB low l2\r\n'
      for _ = 1, 2 do d:expect_line '@1 OK' end
      assert.equal('', after(nil, 0))
      assert.equal('l2', after('ACK 3', 1))
    end)

    it('is new when the channel is closed and opened again', function()
      open(1, 'low l')
      publish('low', 3)
      assert.equal('l', after(nil, 1))
      d:send '@1 CLOSE\r\n'
      d:expect_line '@1 OK'
      open(2, 'low l')
      assert.equal('l l', after(nil, 2))
      d:send '@1 CLOSE\r\n@1 OPEN\r\n@1 SUB low l\r\n'
      for _ = 1, 3 do d:expect_line '@1 OK' end
      assert.equal('l l l', after(nil, 3))
    end)

    it('goes on when a queue of it is deleted', function()
      open(1, 'low l rank=2', 'high h rank=1')
      publish('high', 2)
      assert.equal('h', after(nil, 1))
      publish 'low'
      assert.equal('', after(nil, 0))
      c:ok 'DELETE queue high'
      d:expect_line '@1 EVT cancelled h queue-deleted'
      assert.equal('l', after(nil, 1))
    end)

    it('0 has one by HELLO', function()
      local e = Client.connect(broker.address)
      e:document('HELLO prefetch=2 vhost=' .. broker.vhost)
      e:ok 'SUB low l'
      e:ok 'SUB high h rank=1'
      publish('low', 4)
      assert.equal('l', e:expect_msg().sid)
      assert.equal('l', e:expect_msg().sid)
      publish 'high'
      e:send 'ACK 1 quiet\r\n'
      assert.equal('h', e:expect_msg().sid)
      e:expect_nothing()
      local consumer = c:document('LIST consumers')[1]
      assert.same({ 2, 1, 100 }, { consumer.channel_prefetch, consumer.rank, consumer.prefetch })
      e:close()
    end)

    it('refuses what is no limit and no rank', function()
      c:expect_answer('@1 OPEN prefetch=0', '@1 ERR syntax prefetch=0: expected a number from 1 to 65535')
      c:expect_answer('@1 PING', '@1 ERR not-found channel 1 is not open: send @1 OPEN first')
      c:expect_answer('SUB low l rank=1001', 'ERR syntax rank=1001: expected a number from 0 to 1000')
      c:expect_answer('OPEN prefetch=3', 'ERR exists channel 0 is open already')
    end)

    it('does not lose a credit over many queues, consumers and settles', function()
      local e = broker:connect()
      local words = {}
      for i = 1, 30 do
        c:ok(('DECLARE queue q%d durable=%s'):format(i, durable))
        words[i] = ('q%d s%d rank=%d prefetch=2'):format(i, i, i % 5)
        e:ok(('SUB q%d t%d prefetch=1'):format(i, i))
      end
      open(4, table.unpack(words))
      for n = 1, 600 do publish('q' .. n * 7 % 30 + 1) end
      local got = 0
      local function ack(client, prefix)
        client:send(prefix .. 'PING\r\n')
        local line = client:read_line()
        while line ~= prefix .. 'OK' do
          local m = client:delivery(line)
          client:send(('%sACK %s quiet\r\n'):format(prefix, m.tag))
          got = got + 1
          line = client:read_line()
        end
      end
      assert.truthy(wait.poll(function()
        ack(d, '@1 ')
        ack(e, '')
        return got == 600
      end))
      e:close()
    end)
  end)
end
