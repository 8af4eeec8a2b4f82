-- Who holds a message: connection, channel, subscription, tag, since when, until when.
local Broker = require 'support.broker'

for _, durable in ipairs { '1', '0' } do
  describe(('the holder of a message in a queue with durable=%s'):format(durable), function()
    local broker, c

    setup(function() broker = Broker.start { args = { '--fsync', 'no' } } end)
    teardown(function() broker:expect_clean_stop() end)
    before_each(function()
      c = broker:enter_vhost()
      c:ok('DECLARE queue q durable=' .. durable)
      for _, payload in ipairs { 'a', 'b', 'c' } do c:ok('PUB - q', payload) end
    end)
    after_each(function() c:close() end)

    local function holders()
      local by_payload = {}
      for _, m in ipairs(c:peek 'q 100 state=unacked') do
        by_payload[m.payload] = m.holder
        assert.equal(m.due, m.holder.since)
      end
      return by_payload
    end
    local function connection_of(sid)
      for _, consumer in ipairs(c:document 'LIST consumers') do
        if consumer.sid == sid then return consumer.connection end
      end
    end

    it('is shown by PEEK, for subscriptions, GETs and what has been unsubscribed', function()
      c:send '@3 OPEN\r\n@3 SUB q mine prefetch=1\r\n'
      c:expect_line '@3 OK'
      c:expect_line '@3 OK'
      assert.equal('a', c:expect_msg(nil, 3).payload)
      assert.equal('b', c:get('q')[1].payload)
      local number = connection_of 'mine'
      local now = holders()
      assert.same({ number, 3, 'mine', 1 }, { now.a.connection, now.a.channel, now.a.sid, now.a.tag })
      assert.same({ number, 0, '-', 1 }, { now.b.connection, now.b.channel, now.b.sid, now.b.tag })
      assert.is_nil(now.c)
      local leases = c:stats('q').leases
      assert.equal(2, #leases)
      for i, holder in ipairs { now.a, now.b } do
        -- Two clocks tell when a lease ends: to a millisecond or so.
        assert.is_true(math.abs(leases[i].holder['until'] - holder['until']) < 1000)
        leases[i].holder['until'] = holder['until']
        assert.same(holder, leases[i].holder)
      end
      assert.is_true(leases[1].holder.since <= leases[2].holder.since)
      c:send '@3 UNSUB mine\r\n'
      c:expect_line '@3 OK'
      assert.equal('mine', holders().a.sid)
      assert.is_nil(c:peek('q')[1].holder)
    end)

    it('is named by STATS for the ten messages held for longest', function()
      c:ok 'PURGE q'
      for i = 1, 15 do c:ok('PUB - q', tostring(i)) end
      c:get 'q max=15'
      local tags = {}
      for i, lease in ipairs(c:stats('q').leases) do
        tags[i] = lease.holder.tag
        assert.equal(i == 1, lease.holder['until'] ~= nil)
      end
      assert.same({ 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 }, tags)
      c:ok 'ACK 1-15'
      assert.same({}, c:stats('q').leases)
    end)
  end)
end
