-- DECLARE queue … single-active: one subscription at a time gets the messages, the next
-- takes over when it goes.
local Broker = require 'support.broker'
local wait = require 'support.wait'

for _, durable in ipairs { '1', '0' } do
  describe(('a single-active queue, durable=%s'):format(durable), function()
    local broker, c

    setup(function() broker = Broker.start { args = { '--fsync', 'no', '--window-messages', '16' } } end)
    teardown(function() broker:expect_clean_stop() end)
    before_each(function()
      c = broker:enter_vhost()
      c:ok('DECLARE queue q single-active shards=1 durable=' .. durable)
    end)
    after_each(function() c:close() end)

    local function publish(...)
      for _, payload in ipairs { ... } do c:ok('PUB - q', payload) end
    end
    local function subscribe(words, is_active)
      local client = broker:connect()
      client:ok('SUB q ' .. words)
      if is_active then client:expect_line('EVT active ' .. words:match '%S+') end
      return client
    end
    local function expect(client, ...)
      for _, payload in ipairs { ... } do assert.equal(payload, client:expect_msg().payload) end
    end
    --- Who is active, by LIST: its sid, or nil.
    local function active()
      local found
      for _, consumer in ipairs(c:document 'LIST consumers') do
        if consumer.active then
          assert.is_nil(found)
          found = consumer.sid
        end
      end
      return found
    end

    it('gives to the first that came, and tells it so', function()
      local one, two = subscribe('one', true), subscribe 'two'
      publish('a', 'b', 'c')
      expect(one, 'a', 'b', 'c')
      two:expect_nothing()
      assert.equal('one', active())
      one:close()
      two:close()
    end)

    it('tells after the OK, also with quiet, and of each subscription by its name', function()
      c:send '@4 OPEN\r\n@4 SUB q s quiet\r\n@4 SUB q t\r\n'
      c:expect_line '@4 OK'
      c:expect_line '@4 OK'
      c:expect_line '@4 EVT active s'
      -- A GET on another queue holds its OK back: nothing comes before it.
      c:ok 'DECLARE queue slow'
      c:ok 'DECLARE queue r single-active'
      c:send '@5 OPEN\r\n@5 GET slow wait=1h\r\n@5 SUB r s\r\n'
      c:expect_line '@5 OK'
      c:ok('PUB - r', 'x')
      c:expect_nothing()
      c:send 'PUB - slow quiet 1\r\ny\r\n'
      c:expect_line '@5 OK 1'
      c:expect_msg(nil, 5)
      c:expect_line '@5 OK'
      c:expect_line '@5 EVT active s'
      assert.equal('x', c:expect_msg(nil, 5).payload)
    end)

    it('goes to the next at once when the active one unsubscribes, which keeps what it holds', function()
      local one, two, three = subscribe('one prefetch=2', true), subscribe 'two', subscribe 'three'
      publish('a', 'b', 'c')
      expect(one, 'a', 'b')
      one:ok 'UNSUB one'
      two:expect_line 'EVT active two'
      expect(two, 'c')
      three:expect_nothing()
      assert.equal('2', one:ok 'ACK 1-2')
      assert.equal(1, c:stats('q').unacked)
      for _, client in ipairs { one, two, three } do client:close() end
    end)

    for how, go in pairs {
      ['a closed channel'] = function(client)
        client:send '@1 CLOSE\r\n'
        client:expect_line '@1 OK'
      end,
      ['a lost connection'] = function(client) client:close() end,
    } do
      it(('goes to the next with what the one before held, in order: %s'):format(how), function()
        local one = broker:connect()
        one:send '@1 OPEN\r\n@1 SUB q one prefetch=2\r\n'
        for _, line in ipairs { '@1 OK', '@1 OK', '@1 EVT active one' } do one:expect_line(line) end
        local two = subscribe 'two'
        publish('a', 'b', 'c')
        assert.equal('a', one:expect_msg(nil, 1).payload)
        assert.equal('b', one:expect_msg(nil, 1).payload)
        go(one)
        two:expect_line 'EVT active two'
        expect(two, 'a', 'b', 'c')
        one:close()
        two:close()
      end)
    end

    it('passes on over many, each told once', function()
      local all = {}
      for i = 1, 20 do all[i] = subscribe('s' .. i, i == 1) end
      for i = 1, 19 do
        publish(tostring(i))
        expect(all[i], tostring(i))
        all[i]:ok 'ACK 1'
        all[i]:ok('UNSUB s' .. i)
        all[i + 1]:expect_line('EVT active s' .. i + 1)
      end
      for i = 1, 20 do
        all[i]:expect_nothing()
        all[i]:close()
      end
    end)

    it('passes over those of the same closing connection', function()
      local one = broker:connect()
      for i = 1, 5 do one:ok('SUB q own' .. i) if i == 1 then one:expect_line 'EVT active own1' end end
      local two = subscribe 'two'
      one:send '@1 OPEN\r\n'
      one:expect_line '@1 OK'
      one:close()
      two:expect_line 'EVT active two'
      two:close()
    end)

    it('is given to a higher priority, when the one before has settled what it holds', function()
      local one, high = subscribe('one prefetch=3', true), subscribe 'high priority=5'
      one:expect_line 'EVT relieved one'
      high:expect_line 'EVT active high'
      publish 'a'
      expect(high, 'a')
      local higher = subscribe 'higher priority=6'
      high:expect_line 'EVT relieved high'
      publish('b', 'c')
      higher:expect_nothing()
      assert.is_nil(active())
      high:ok 'ACK 1'
      higher:expect_line 'EVT active higher'
      expect(higher, 'b', 'c')
      higher:close()
      high:expect_line 'EVT active high'
      expect(high, 'b', 'c')
      one:expect_nothing()
      one:close()
      high:close()
    end)

    it('stays with the active one when a higher priority has gone before it began', function()
      local one = subscribe('one prefetch=3', true)
      publish 'a'
      expect(one, 'a')
      local high = subscribe 'high priority=5'
      one:expect_line 'EVT relieved one'
      high:close()
      one:expect_line 'EVT active one'
      publish 'b'
      expect(one, 'b')
      one:close()
    end)

    it('passes on when the lease of the relieved one runs out', function()
      c:ok('DECLARE queue r single-active ack-timeout=1s delivery-limit=0 durable=' .. durable)
      local one, high = broker:connect(), broker:connect()
      one:ok 'SUB r one prefetch=1'
      one:expect_line 'EVT active one'
      c:ok('PUB - r', 'a')
      expect(one, 'a')
      high:ok 'SUB r high priority=1 prefetch=1'
      one:expect_line 'EVT relieved one'
      high:expect_line 'EVT active high'
      expect(high, 'a')
      one:close()
      high:close()
    end)

    it('passes on with auto acks too', function()
      local one = subscribe('one ack=auto', true)
      publish 'a'
      expect(one, 'a')
      local high = subscribe 'high ack=auto priority=1'
      one:expect_line 'EVT relieved one'
      high:expect_line 'EVT active high'
      publish 'b'
      expect(high, 'b')
      one:close()
      high:close()
    end)

    it('begins anew when all have gone', function()
      subscribe('one', true):close()
      assert.truthy(wait.poll(function() return c:stats('q').consumers == 0 end))
      publish 'a'
      local two = subscribe('two', true)
      expect(two, 'a')
      two:close()
    end)

    it('tells nobody to be active when it is deleted', function()
      local one, two = subscribe('one', true), subscribe 'two'
      c:ok 'DELETE queue q'
      one:expect_line 'EVT cancelled one queue-deleted'
      two:expect_line 'EVT cancelled two queue-deleted'
      one:expect_nothing()
      two:expect_nothing()
      one:close()
      two:close()
    end)

    it('refuses GET, which would be a second consumer', function()
      c:expect_answer('GET q', "ERR denied queue 'q' is single-active: only SUB takes its messages")
    end)

    it('differs from one that is not', function()
      c:expect_answer('DECLARE queue q shards=1 durable=' .. durable,
        "ERR mismatch queue 'q' exists with other options: it has single-active=1, not single-active=0; " ..
          'the option update changes that')
      c:ok('DECLARE queue q single-active=1 durable=' .. durable)
      c:expect_answer('DECLARE queue r single-active=2', 'ERR syntax single-active=2: expected 0 or 1')
      assert.equal('1', c:document('LIST queues')[1].options['single-active'])
      assert.is_nil(active())
    end)
  end)
end

describe('a single-active queue', function()
  it('is one after kill -9 of the broker', function()
    local broker = Broker.start {}
    local c, publisher = broker:connect(), broker:connect()
    c:ok 'DECLARE queue q single-active shards=1'
    c:ok 'SUB q one prefetch=2'
    c:expect_line 'EVT active one'
    for _, payload in ipairs { 'a', 'b', 'c' } do publisher:ok('PUB - q', payload) end
    assert.equal('b', (c:expect_msg() and c:expect_msg()).payload)
    broker:kill9()
    broker:run()
    local one, two = broker:connect(), broker:connect()
    one:ok 'SUB q one'
    one:expect_line 'EVT active one'
    for _, payload in ipairs { 'a', 'b', 'c' } do assert.equal(payload, one:expect_msg().payload) end
    two:ok 'SUB q two'
    two:expect_nothing()
    broker:expect_clean_stop()
  end)
end)
