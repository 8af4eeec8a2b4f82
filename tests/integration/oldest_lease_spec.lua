-- Whose lease runs, what its end does to the others, what is no failure, and which late ACKs count: in a queue, durable
-- and not, and in a topic. A lease ends when TOUCH says so, so that no test has to be quick.
local Broker = require 'support.broker'
local wait = require 'support.wait'

local LOST = 'ERR lease-lost tag %d is no longer held: it was settled, timed out or its queue was deleted'
local TAKEN = 'ERR lease-lost tag %d is no longer held: its lease ended, and somebody else has its message or '
  .. 'has settled it'
local PLACES = {
  { name = 'a durable queue', declare = 'queue q shards=1 ack-timeout=1h', sub = 's' },
  { name = 'a queue in memory', declare = 'queue q shards=1 durable=0 ack-timeout=1h', sub = 's' },
  { name = 'a topic', declare = 'topic q partitions=1 ack-timeout=1h order=0', sub = 's group=g', is_topic = true },
}

for _, place in ipairs(PLACES) do
  describe('a consumer of ' .. place.name, function()
    local broker, c, admin

    setup(function() broker = Broker.start { args = { '--fsync', 'no' } } end)
    teardown(function() broker:expect_clean_stop() end)
    before_each(function()
      admin = broker:enter_vhost()
      c = broker:connect()
    end)
    after_each(function()
      c:close()
      admin:close()
    end)

    local function subscribe(client, options)
      client:ok(('SUB q %s%s'):format(place.sub, options and ' ' .. options or ''))
      if place.is_topic then client:expect '^EVT assigned s ' end
    end
    local function publish(...)
      for _, payload in ipairs { ... } do admin:ok('PUB - q', payload) end
    end
    --- The next messages: payload, attempt, and + if it was handed out before.
    local function expect_messages(client, wanted)
      local list = {}
      for _ in wanted:gmatch '%S+' do
        local m = client:expect_msg()
        list[#list + 1] = ('%s%d%s'):format(m.payload, m.attempt, m.redelivered and '+' or '')
      end
      assert.equal(wanted, table.concat(list, ' '))
    end
    local function begin(wanted, options, declared)
      admin:ok('DECLARE ' .. place.declare .. (declared and ' ' .. declared or ''))
      subscribe(c, options)
      for word in wanted:gmatch '%a' do publish(word) end
      expect_messages(c, wanted)
    end
    local function expect_counts(timed_out, returned)
      local s = admin:stats 'q'
      assert.same({ timed_out, returned }, { s.timed_out, s.returned })
    end

    it('that settles nothing for a lease fails the oldest and gives back the others', function()
      begin 'a1 b1 c1 d1'
      c:ok 'TOUCH 1 for=10ms'
      expect_messages(c, 'a2+')
      -- One at a time, until it settles one.
      c:expect_nothing()
      expect_counts(1, 3)
      c:send 'ACK 5 quiet\r\n'
      expect_messages(c, 'b1+ c1+ d1+')
      assert.equal('3', c:ok 'ACK 6-8')
    end)

    it('that settles others fails the oldest alone', function()
      begin 'a1 b1 c1'
      c:ok 'ACK 2'
      c:ok 'TOUCH 1 for=10ms'
      expect_messages(c, 'a2+')
      expect_counts(1, 0)
      assert.equal('2', c:ok 'ACK 3-4')
    end)

    it('has a lease for the next one when the oldest is settled', function()
      begin 'a1 b1 c1'
      c:ok 'TOUCH 2 for=10ms'
      c:expect_nothing()
      c:send 'ACK 1 quiet\r\n'
      expect_messages(c, 'b2+')
      expect_counts(1, 1)
    end)

    it('has a lease only when nothing older waits in another subscription of its client', function()
      begin 'a1'
      c:ok('DECLARE ' .. place.declare:gsub(' q ', ' other '))
      c:ok('SUB other t' .. place.sub:sub(2))
      if place.is_topic then c:expect '^EVT assigned t ' end
      admin:ok('PUB - other', 'x')
      assert.equal('x', c:expect_msg().payload)
      c:ok 'TOUCH 2 for=10ms'
      c:expect_nothing()
      c:send 'ACK 1 quiet\r\nTOUCH 2 for=10ms quiet\r\n'
      local m = c:expect_msg()
      assert.same({ 't', 'x', 2 }, { m.sid, m.payload, m.attempt })
      c:ok 'ACK 3'
      assert.equal(1, admin:stats('other').timed_out)
      admin:ok('DELETE ' .. place.declare:match '^%a+' .. ' other')
      c:expect_line(('EVT cancelled t %s-deleted'):format(place.declare:match '^%a+'))
    end)

    it('that leaves in order is charged with nothing', function()
      begin 'a1 b1 c1'
      for _ = 1, 2 do
        c:ok 'QUIT'
        c:close()
        c = broker:connect()
        subscribe(c)
        expect_messages(c, 'a1+ b1+ c1+')
      end
      c:ok 'ACK 1-3'
      expect_counts(0, 6)
    end)

    it('whose connection breaks is charged with the oldest', function()
      begin 'a1 b1 c1'
      c:ok 'ACK 1'
      c:close()
      c = broker:connect()
      subscribe(c)
      expect_messages(c, 'b2+ c1+')
      expect_counts(0, 1)
    end)

    it('gives back what it has not begun, without a failure, in the old order', function()
      begin('a1 b1 c1', 'prefetch=3', 'delivery-limit=2')
      for _ = 1, 5 do
        c:ok 'UNSUB s'
        assert.equal('3', c:ok 'NACK 1-99 requeue')
        subscribe(c, 'prefetch=3')
        expect_messages(c, 'a1+ b1+ c1+')
      end
      assert.equal(15, admin:stats('q').nacked)
      expect_counts(0, 15)
    end)

    it('that acknowledges late has done the work, if nobody else has it', function()
      begin('a1 b1', nil, 'retry=fixed retry.delay=1h')
      c:ok 'TOUCH 1 for=10ms'
      expect_messages(c, 'b1+') -- a waits for its next attempt
      assert.equal('1', c:ok 'ACK 1')
      -- By the tag of before, and then by that of now.
      assert.equal('1', c:ok 'ACK 2')
      assert.equal('1', c:ok 'ACK 3')
      c:expect_answer('ACK 3', LOST:format(3))
      assert.equal(2, admin:stats('q').acked)
      expect_counts(1, 1)
    end)

    it('that acknowledges what another one has is refused', function()
      begin 'a1'
      local other = broker:connect()
      if place.is_topic then
        c:ok 'TOUCH 1 for=10ms'
        expect_messages(c, 'a2+')
        c:ok 'UNSUB s'
        c:ok 'NACK 2 requeue'
        subscribe(other)
        expect_messages(other, 'a2+')
      else
        subscribe(other, 'priority=9')
        c:ok 'TOUCH 1 for=10ms'
        expect_messages(other, 'a2+')
      end
      c:expect_answer('ACK 1', TAKEN:format(1))
      c:expect_answer('NACK 1', LOST:format(1))
      other:ok 'ACK 1'
      other:close()
    end)

    it('that only gives back waits, and nobody else does', function()
      admin:ok('DECLARE ' .. place.declare)
      subscribe(c, 'prefetch=1')
      publish 'a'
      for _ = 1, 1000 do c:ok('NACK ' .. c:expect_msg().tag .. ' requeue') end
      local m = c:expect_msg()
      for _ = 1, 3 do
        c:ok(('NACK %s requeue'):format(m.tag))
        -- It rests: others could have the message, and it has it again later.
        m = c:expect_msg()
      end
      assert.same({ 1, true }, { m.attempt, m.redelivered })
      c:ok('ACK ' .. m.tag)
    end)
  end)
end

describe('a late ACK', function()
  it('finds its message behind the window, and none that is dead', function()
    local broker = Broker.start { args = { '--window-messages', '16' } }
    local c = broker:connect()
    c:ok 'DECLARE queue dead'
    c:ok 'DECLARE queue q shards=1 ack-timeout=1h dead-letter=-/dead'
    for i = 1, 60 do c:ok('PUB - q pri=1', tostring(i)) end
    assert.equal(60, #c:get 'q max=60')
    c:ok 'TOUCH 1 for=10ms'
    assert(wait.poll(function() return c:stats('q').ready == 60 end))
    assert.equal('30', c:ok 'ACK 31-60')
    assert.same({ 30, 30 }, { c:stats('q').ready, c:stats('q').acked })
    c:ok('NACK ' .. c:get('q')[1].tag .. ' dead')
    c:expect_answer('ACK 1', TAKEN:format(1))
    assert.equal('1', c:ok 'ACK 1-2')
    assert.equal(1, c:stats('dead').ready)
    c:close()
    broker:expect_clean_stop()
  end)
end)
