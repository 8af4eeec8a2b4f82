-- SUB priority=: consumers of higher priority come first while they can take.
local Broker = require 'support.broker'
local wait = require 'support.wait'

for _, durable in ipairs { '1', '0' } do
  describe(('consumers with priorities, durable=%s'):format(durable), function()
    local broker, c

    setup(function() broker = Broker.start { args = { '--fsync', 'no', '--window-messages', '16' } } end)
    teardown(function() broker:expect_clean_stop() end)
    before_each(function()
      c = broker:enter_vhost()
      c:ok('DECLARE queue q shards=2 durable=' .. durable)
    end)
    after_each(function() c:close() end)

    local function publish(n)
      for _ = 1, n do c:send 'PUB - q quiet 1\r\nx\r\n' end
      c:expect_nothing()
    end
    --- The sids of the messages that have come to a connection, and the last tag.
    local function taken(client)
      client:send 'PING\r\n'
      local sids, line = {}, client:read_line()
      while line ~= 'OK' do
        sids[#sids + 1] = client:delivery(line).sid
        line = client:read_line()
      end
      return table.concat(sids, ' ')
    end
    --- The same, when so many messages have been delivered since the queue was declared.
    local function taken_of(client, delivered)
      assert.truthy(wait.poll(function() return c:stats('q').delivered == delivered end))
      return taken(client)
    end
    local function subscribed(...)
      local client = broker:connect()
      for _, words in ipairs { ... } do client:ok('SUB q ' .. words) end
      return client
    end

    it('serves the highest while it has credit, then the next', function()
      local d = subscribed('low prefetch=4 priority=-1', 'high prefetch=2 priority=7', 'none prefetch=1')
      publish(7)
      assert.equal('high high none low low low low', taken_of(d, 7))
      publish(2)
      d:send 'ACK 4-5 quiet\r\n' -- two of low's
      assert.equal('low low', taken_of(d, 9))
      publish(3)
      assert.equal('', taken_of(d, 9))
      d:send 'ACK 7 1 3 quiet\r\n' -- of all three, in one turn
      assert.equal('high none low', taken_of(d, 12))
      d:close()
    end)

    it('gives to the highest first when all have credit again', function()
      local d = subscribed('low prefetch=1', 'high prefetch=1 priority=1')
      publish(2)
      assert.equal('high low', taken_of(d, 2))
      publish(1)
      d:send 'ACK 2 1 quiet\r\n'
      assert.equal('high', taken_of(d, 3))
      d:close()
    end)

    it('deals round robin among equals', function()
      local d = subscribed('a prefetch=100 priority=3', 'b prefetch=100 priority=3', 'idle priority=2')
      publish(6)
      assert.equal('a b a b a b', taken_of(d, 6))
      d:close()
    end)

    it('begins with the highest again when it comes back', function()
      local d, e = subscribed('low prefetch=100'), subscribed('high prefetch=1 priority=1000')
      publish(3)
      assert.equal('low low', taken_of(d, 3))
      assert.equal('high', taken(e))
      e:close()
      assert.equal('low', taken_of(d, 4))
      e = subscribed('high prefetch=100 priority=1000')
      publish(2)
      assert.equal('high high', taken_of(e, 6))
      assert.equal('', taken(d))
      d:close()
      e:close()
    end)

    it('serves a waiting GET as one of priority 0', function()
      local d, getter = subscribed('low prefetch=9 priority=-1'), broker:connect()
      getter:send 'GET q wait=1h\r\n'
      assert.truthy(wait.poll(function() return #c:document 'LIST consumers' == 2 end))
      publish(2)
      getter:expect_line 'OK 1'
      getter:expect_msg()
      assert.equal('low', taken_of(d, 2))
      d:ok 'SUB q high priority=1 prefetch=1'
      getter:send 'GET q wait=1h\r\n'
      assert.truthy(wait.poll(function() return #c:document 'LIST consumers' == 3 end))
      publish(3)
      getter:expect_line 'OK 1'
      getter:expect_msg()
      assert.equal('high low', taken_of(d, 5))
      d:close()
      getter:close()
    end)

    it('lists the priority', function()
      local d = subscribed('a priority=-1000', 'b')
      local priorities = {}
      for _, consumer in ipairs(c:document 'LIST consumers') do priorities[consumer.sid] = consumer.priority end
      assert.same({ a = -1000, b = 0 }, priorities)
      d:close()
    end)

    it('refuses what is no priority', function()
      for _, value in ipairs { '1001', '-1001', 'high', '-', '', '--1', '1.5', '99999999999999999999' } do
        c:expect_answer('SUB q s priority=' .. value,
          ('ERR syntax priority=%s: expected a number from -1000 to 1000'):format(value))
      end
      c:ok 'SUB q s priority=1000'
    end)
  end)
end
