-- GET of topics: pulls of a group, and stateless reads of a partition.
local Broker = require 'support.broker'
local Client = require 'support.client'
local topics = require 'support.topics'

describe('GET of a topic', function()
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

  local payloads = Client.payload_text

  describe('with a group', function()
    it('takes up to max messages, which are settled as those of a SUB', function()
      c:ok 'DECLARE topic t partitions=1'
      publish('a', 'b', 'c')
      local messages = c:get 't group=g max=2'
      assert.equal('a b', payloads(messages))
      assert.equal('0 0', messages[1].options.partition .. ' ' .. messages[1].options.offset)
      assert.equal('2', c:ok 'ACK 1-2')
      assert.equal('c', payloads(c:get 't group=g max=10'))
      assert.same({}, c:get 't group=g')
      assert.equal(2, c:document('LIST groups')[1].partitions[1].committed)
    end)

    it('takes nothing of a partition of which somebody holds something', function()
      c:ok 'DECLARE topic t partitions=1'
      publish('a', 'b')
      assert.equal('a', payloads(c:get 't group=g'))
      assert.same({}, p:get 't group=g')
      c:ok 'NACK 1'
      assert.equal('a', payloads(p:get 't group=g'))
      p:ok 'ACK 1'
      assert.equal('b', payloads(c:get 't group=g ack=auto'))
      assert.same({}, p:get 't group=g')
    end)

    it('does so with order=0', function()
      c:ok 'DECLARE topic t partitions=1 order=0'
      publish('a', 'b')
      assert.equal('a', payloads(c:get 't group=g'))
      assert.equal('b', payloads(p:get 't group=g'))
    end)

    it('waits for a message', function()
      c:ok 'DECLARE topic t partitions=4'
      c:send 'GET t group=g wait=20s\r\n'
      publish 'a'
      c:expect_line 'OK 1'
      assert.equal('a', c:expect_msg().payload)
      assert.same({}, c:get 't group=g wait=10ms')
    end)

    it('lets those that wait have what the first one leaves', function()
      c:ok 'DECLARE topic t partitions=1'
      local d = broker:connect()
      c:send 'GET t group=g wait=20s ack=auto\r\nPING\r\n'
      p:ok 'PING'
      d:send 'GET t group=g wait=20s ack=auto\r\n'
      d:send 'PING\r\n'
      publish('a', 'b')
      c:expect_line 'OK 1'
      local first = c:expect_msg().payload
      d:expect_line 'OK 1'
      local second = d:expect_msg().payload
      assert.equal('a b', first < second and first .. ' ' .. second or second .. ' ' .. first)
      d:close()
    end)

    it('leaves the partitions of members to them', function()
      c:ok 'DECLARE topic t partitions=2'
      c:send 'SUB t s group=g\r\n'
      c:expect_line 'OK'
      c:expect_line 'EVT assigned s 0,1'
      publish 'a'
      assert.same({}, p:get 't group=g')
      assert.equal('a', c:expect_msg().payload)
      p:send 'GET t group=g wait=20s\r\n'
      c:ok 'ACK 1'
      c:ok 'UNSUB s'
      c:ok('PUB - t', 'b')
      p:expect_line 'OK 1'
      assert.equal('b', p:expect_msg().payload)
    end)

    it('waits for what is being read from Redis', function()
      c:ok 'DECLARE topic t partitions=1'
      publish('a', 'b')
      broker:restart()
      c = broker:connect()
      assert.equal('a b', payloads(c:get 't group=g max=10'))
    end)

    it('ends with its topic', function()
      c:ok 'DECLARE topic t'
      c:send 'GET t group=g wait=20s\r\n'
      p:ok 'DELETE topic t'
      c:expect_line "ERR not-found topic 't' was deleted"
    end)
  end)

  describe('without a group', function()
    it('reads a partition from a position on, and keeps nothing', function()
      c:ok 'DECLARE topic t partitions=1'
      publish('a', 'b', 'c')
      assert.equal('b c', payloads(c:get 't partition=0 offset=1 max=10'))
      assert.equal('a', payloads(c:get 't partition=0 offset=first'))
      assert.equal('a b c', payloads(c:get 't partition=0 offset=1h max=3'))
      local messages = c:get 't partition=0 offset=2 max=10'
      assert.equal('-', messages[1].tag)
      assert.same({}, c:get 't partition=0 offset=3')
      assert.same({}, c:document 'LIST groups')
      assert.equal(0, c:stats('t').readers)
    end)

    it('waits for the next one', function()
      c:ok 'DECLARE topic t partitions=1'
      publish 'a'
      c:send 'GET t partition=0 offset=last wait=20s\r\n'
      publish 'b'
      c:expect_line 'OK 1'
      assert.equal('b', c:expect_msg().payload)
    end)

    it('gives no more than about 1 MiB', function()
      c:ok 'DECLARE topic t partitions=1'
      for _ = 1, 8 do publish(('x'):rep(300000)) end
      local function expect_some()
        local count = #c:get 't partition=0 offset=first max=100'
        assert.is_true(count >= 3 and count <= 5)
      end
      expect_some()
      broker:restart()
      c = broker:connect()
      expect_some()
    end)
  end)

  it('refuses what makes no sense', function()
    c:ok 'DECLARE topic t partitions=1'
    c:ok 'DECLARE queue q'
    local either = "ERR syntax GET of topic 't' takes group=, or else partition= and offset="
    c:expect_answer('GET t', either)
    c:expect_answer('GET t partition=0', either)
    c:expect_answer('GET t group=g partition=0', either)
    c:expect_answer('GET t partition=1 offset=first', "ERR not-found topic 't' has no partition 1: it has 1, from 0 on")
    local nothing_else = "ERR syntax GET of topic 't' names nothing else, and takes no id= and no match="
    c:expect_answer('GET t q group=g', nothing_else)
    c:expect_answer('GET t group=g match=x', nothing_else)
    c:expect_answer('GET q group=g',
      "ERR syntax group=, from=, partition= and offset= are for topics, and 'q' is a queue")
  end)
end)
