-- Groups of consumers of a topic: SUB group=, ACK, NACK, TOUCH, assignment, commits, SEEK.
local Broker = require 'support.broker'
local topics = require 'support.topics'
local wait = require 'support.wait'

local LOST, sub, expect_payloads = topics.LOST, topics.sub, topics.expect_payloads

describe('a group of a topic', function()
  local broker, c

  setup(function() broker = Broker.start { args = { '--fsync', 'no' } } end)
  teardown(function() broker:expect_clean_stop() end)
  before_each(function() c = broker:enter_vhost() end)
  after_each(function() c:close() end)

  local function declare(options) topics.declare(c, options) end
  local function publish(...) topics.publish(c, ...) end
  local function group(name) return topics.group(c, name) end

  local function committed(name, partition)
    local value = broker:redis_cli('HGET', ('tide:{%s/t#%d}:groups'):format(broker.vhost, partition or 0), name)
    return tonumber(value) or value
  end

  local function expect_committed(name, offset, partition)
    assert(wait.poll(function() return committed(name, partition) == offset end),
      ('%s has committed %s'):format(name, committed(name, partition)))
  end

  describe('that reads', function()
    it('gets the messages in order, with partition and offset', function()
      declare()
      publish('m1', 'm2', 'm3')
      sub(c, 's group=g')
      for i = 1, 3 do
        local m = c:expect_msg()
        assert.equal(('MSG s %d 1 - t id=%s ts=%s partition=0 offset=%d 2'):format(i, m.options.id, m.options.ts,
          i - 1), m.line)
        assert.equal('m' .. i, m.payload)
      end
      assert.equal('3', c:ok 'ACK 1-3')
      c:send 'PUB - t 2\r\nm4\r\n'
      c:expect '^OK %x+ 1 0:3$'
      expect_payloads(c, 'm4')
    end)

    it('is independent of other groups', function()
      declare()
      publish('a', 'b')
      sub(c, 's1 group=g1 ack=auto')
      expect_payloads(c, 'a', 'b')
      sub(c, 's2 group=g2')
      expect_payloads(c, 'a', 'b')
      c:ok 'UNSUB s1'
      c:ok 'ACK 1-2'
      sub(c, 's3 group=g1')
      c:ok('PUB - t', 'c')
      local m1, m2 = c:expect_msg(), c:expect_msg()
      assert.equal('c c', m1.payload .. ' ' .. m2.payload)
    end)

    it('begins where from= says, when it is new', function()
      declare()
      publish('a', 'b', 'c')
      sub(c, 's1 group=g1 from=1')
      expect_payloads(c, 'b', 'c')
      sub(c, 's2 group=g2 from=last')
      c:send 'PUB - t 1\r\nd\r\n'
      c:expect '^OK %x+ 1 0:3$'
      local sids = c:expect_msg().sid .. ' ' .. c:expect_msg().sid
      assert.is_truthy(sids == 's1 s2' or sids == 's2 s1')
      c:expect_nothing()
    end)

    it('begins at a time', function()
      declare()
      publish('a', 'b')
      local first = tonumber(c:document('STATS t').per_partition[1].last)
      assert(wait.poll(function() return tonumber(c:ok('PUB - t', 'c'):match ':(%d+)$') and true end))
      sub(c, 's1 group=g1 from=1d')
      expect_payloads(c, 'a', 'b', 'c')
      sub(c, 's2 group=g2 from=@0')
      expect_payloads(c, 'a', 'b', 'c')
      sub(c, ('s3 group=g3 from=@%d'):format(first + 1000 * 3600))
      c:expect_nothing()
    end)

    it('goes on where it was when it has committed, whatever from= says', function()
      declare()
      publish('a', 'b', 'c')
      sub(c, 's group=g')
      expect_payloads(c, 'a', 'b', 'c')
      c:ok 'ACK 1-2'
      c:ok 'UNSUB s'
      c:ok 'ACK 3'
      publish 'd'
      sub(c, 's group=g from=first')
      expect_payloads(c, 'd')
    end)

    it('is given no more than its prefetch', function()
      declare()
      publish('a', 'b', 'c', 'd', 'e')
      sub(c, 's group=g prefetch=2')
      expect_payloads(c, 'a', 'b')
      c:expect_nothing()
      c:ok 'ACK 1'
      expect_payloads(c, 'c')
      c:expect_nothing()
      c:ok 'ACK 2-3'
      expect_payloads(c, 'd', 'e')
    end)

    it('shares the prefetch of its channel with queues', function()
      declare()
      c:ok 'DECLARE queue q durable=0'
      c:send '@1 OPEN prefetch=3\r\n'
      c:expect_line '@1 OK'
      c:send '@1 SUB t s group=g\r\n@1 SUB q sq\r\n'
      c:expect_line '@1 OK'
      c:expect_line '@1 EVT assigned s 0'
      c:expect_line '@1 OK'
      local p = broker:connect()
      for _, to in ipairs { 't', 't', 'q', 'q' } do p:ok('PUB - ' .. to, to) end
      p:close()
      for _ = 1, 3 do c:expect_msg(nil, 1) end
      c:expect_nothing()
      c:send '@1 ACK 1-3\r\n'
      c:expect_line '@1 OK 3'
      assert.equal('q', c:expect_msg(nil, 1).payload)
    end)

    it('gets headers, priorities and large payloads', function()
      declare()
      local large = ('x'):rep(100000)
      c:ok('PUB - t h:a=b%20c pri=7', 'p')
      c:ok('PUB - t', large)
      sub(c, 's group=g')
      local m = c:expect_msg()
      assert.equal('b c', m.headers.a)
      assert.equal('7', m.options.pri)
      assert.equal(large, c:expect_msg().payload)
    end)

    it('works in memory alone too', function()
      declare 'partitions=2 durable=0'
      publish('a', 'b')
      sub(c, 's group=g', '0,1')
      expect_payloads(c, 'a', 'b')
      c:ok 'ACK 1-2'
      c:ok 'UNSUB s'
      publish 'c'
      sub(c, 's group=g', '0,1')
      expect_payloads(c, 'c')
    end)
  end)

  describe('that settles', function()
    it('commits the end of the contiguous part', function()
      declare()
      publish('a', 'b', 'c', 'd')
      sub(c, 's group=g')
      expect_payloads(c, 'a', 'b', 'c', 'd')
      c:ok 'ACK 3-4'
      assert.equal(0, group('g').partitions[1].committed)
      assert.equal(4, group('g').partitions[1].ahead)
      c:ok 'ACK 1'
      assert.equal(1, group('g').partitions[1].committed)
      expect_committed('g', 1)
      c:ok 'ACK 2'
      expect_committed('g', 4)
      assert.equal(0, group('g').lag)
    end)

    it('is told of tags that it does not hold', function()
      declare()
      publish 'a'
      sub(c, 's group=g')
      expect_payloads(c, 'a')
      c:ok 'ACK 1'
      c:expect_answer('ACK 1', 'ERR lease-lost tag 1 ' .. LOST)
      c:expect_answer('NACK 2', 'ERR not-found tag 2 was never given out on this channel')
    end)

    it('acknowledges messages of queues and topics in one range', function()
      declare()
      c:ok 'DECLARE queue q'
      sub(c, 's group=g')
      c:ok 'SUB q sq'
      local p = broker:connect()
      for i = 1, 3 do
        for _, to in ipairs { 't', 'q' } do
          p:ok('PUB - ' .. to, tostring(i))
          c:expect_msg()
        end
      end
      p:close()
      assert.equal('6', c:ok 'ACK 1-6')
      assert.equal(0, c:stats('q').unacked)
      assert.equal(3, group('g').partitions[1].committed)
    end)

    it('is given a message again that it has refused', function()
      declare 'partitions=1 retry=immediate'
      publish('a', 'b')
      sub(c, 's group=g')
      expect_payloads(c, 'a', 'b')
      c:ok 'NACK 1'
      local m = expect_payloads(c, 'a')
      assert.equal(2, m.attempt)
      assert.is_true(m.redelivered)
      assert.equal('3', m.tag)
      c:ok 'ACK 2-3'
      assert.equal(2, group('g').partitions[1].committed)
    end)

    it('waits with what is new while a message is delayed, to keep the order', function()
      declare()
      publish('a', 'b')
      sub(c, 's group=g prefetch=2')
      expect_payloads(c, 'a', 'b')
      c:ok 'NACK 1 delay=1s'
      c:ok 'ACK 2'
      publish 'c'
      c:expect_nothing()
      expect_payloads(c, 'a', 'c')
    end)

    it('goes on meanwhile with order=0', function()
      declare 'partitions=1 order=0'
      publish('a', 'b')
      sub(c, 's group=g')
      expect_payloads(c, 'a', 'b')
      c:ok 'NACK 1 delay=1s'
      c:send 'PUB - t 1\r\nc\r\n'
      c:expect '^OK'
      expect_payloads(c, 'c', 'a')
      c:ok 'ACK 2-4'
      expect_committed('g', 3)
    end)

    it('loses messages whose time is over', function()
      declare 'partitions=1 ack-timeout=1h'
      publish('a', 'b')
      sub(c, 's group=g')
      expect_payloads(c, 'a', 'b')
      c:ok 'TOUCH 1 for=10ms'
      local m = c:expect_msg()
      assert.same({ 'a', 2 }, { m.payload, m.attempt })
      c:expect_answer('NACK 1', 'ERR lease-lost tag 1 ' .. LOST)
      -- It has settled nothing: one at a time, until it does.
      c:expect_nothing()
      c:ok 'ACK 3'
      m = c:expect_msg()
      assert.same({ 'b', 1, true }, { m.payload, m.attempt, m.redelivered })
      local s = broker:connect():stats 't'
      assert.same({ 1, 1 }, { s.timed_out, s.returned })
    end)

    it('keeps messages for longer by TOUCH', function()
      declare 'partitions=1 ack-timeout=1h'
      publish('a', 'b', 'c')
      sub(c, 's group=g')
      expect_payloads(c, 'a', 'b', 'c')
      -- That of b begins, and ends, when a is settled; then c is the oldest.
      c:ok 'TOUCH 2 for=10ms'
      c:ok 'TOUCH 3'
      c:expect_nothing()
      c:ok 'ACK 1'
      local m = c:expect_msg()
      assert.same({ 'b', 2 }, { m.payload, m.attempt })
      c:expect_nothing()
      c:ok 'ACK 4'
      assert.equal('c', c:expect_msg().payload)
    end)

    it('dead-letters what has failed for good', function()
      c:ok 'DECLARE queue dead'
      declare 'partitions=1 delivery-limit=2 dead-letter=-/dead'
      publish('a', 'b')
      sub(c, 's group=g')
      expect_payloads(c, 'a', 'b')
      c:ok 'NACK 1'
      expect_payloads(c, 'a')
      c:ok 'NACK 3'
      local dead = c:get('dead wait=10s')[1]
      assert.equal('a', dead.payload)
      assert.equal('delivery-limit', dead.headers['x-death-rule'])
      assert.equal('t', dead.headers['x-death-queue'])
      c:ok 'ACK 2'
      assert(wait.poll(function() return group('g').partitions[1].committed == 2 end))
      c:ok 'UNSUB s'
      publish 'c'
      sub(c, 's group=g')
      expect_payloads(c, 'c')
    end)

    it('dead-letters at once by NACK dead, later when nobody takes the copy', function()
      declare 'partitions=1 dead-letter=-/dead'
      publish('a', 'b')
      sub(c, 's group=g prefetch=1')
      expect_payloads(c, 'a')
      c:ok 'NACK 1 dead'
      c:expect_nothing() -- b comes after a
      c:ok 'DECLARE queue dead'
      local m = c:expect_msg(20)
      assert.equal('b', m.payload)
      assert.equal('a', c:get('dead')[1].payload)
    end)

    it('logs one line for many copies that nobody takes', function()
      c:ok 'DECLARE topic many partitions=1 dead-letter=-/nobody'
      for i = 1, 3 do c:ok('PUB - many', 'm' .. i) end
      c:send 'SUB many s group=g\r\n'
      c:expect_line 'OK'
      c:expect_line 'EVT assigned s 0'
      expect_payloads(c, 'm1', 'm2', 'm3')
      c:ok 'NACK 1-3 dead'
      assert.equal(3, c:document('LIST groups')[1].partitions[1].returned)
      local _, lines = broker:log():gsub('dead%-lettering: ', '')
      assert.is_true(lines <= 1, broker:log())
    end)

    it('gives up what has no target, and goes on', function()
      declare 'partitions=1 delivery-limit=1'
      publish('a', 'b')
      sub(c, 's group=g')
      expect_payloads(c, 'a', 'b')
      c:ok 'NACK 1'
      c:ok 'NACK 2 bury'
      assert.equal(2, group('g').given_up)
      assert.equal(2, group('g').partitions[1].committed)
      sub(c, 's2 group=other')
      expect_payloads(c, 'a', 'b')
    end)

    it('charges each consumer of a channel that ends, also one that was ended before', function()
      c:ok 'DECLARE queue dead'
      declare 'partitions=1 delivery-limit=1 dead-letter=-/dead'
      publish 'a'
      local other = broker:connect()
      sub(other, 's group=g')
      expect_payloads(other, 'a')
      other:ok 'UNSUB s'
      assert.equal('a', other:get('t group=h')[1].payload)
      other:close()
      for _ = 1, 2 do assert.equal('a', c:get('dead wait=10s')[1].payload) end
    end)

    it('refuses what is for queues', function()
      declare()
      publish 'a'
      sub(c, 's group=g')
      expect_payloads(c, 'a')
      c:expect_answer('NACK 1 pri=3',
        'ERR denied NACK pri= is for messages of queues: those of topics keep their order')
      c:ok 'BEGIN'
      c:expect_answer('ACK 1', 'ERR denied messages of topics are not settled by a transaction')
      c:ok 'ROLLBACK'
      assert.equal('1', c:ok 'ACK 1')
    end)
  end)

  describe('with members', function()
    it('shares the partitions, and moves no more than it must', function()
      declare 'partitions=4'
      local function shares()
        local by_sid = {}
        for _, consumer in ipairs(c:document 'LIST consumers') do by_sid[consumer.sid] = consumer.partitions end
        return by_sid
      end
      local d, e = broker:connect(), broker:connect()
      sub(c, 'c group=g', '0,1,2,3')
      d:send 'SUB t d group=g\r\n'
      d:expect_line 'OK'
      assert.equal(3, #d:expect '^EVT assigned d (%d,%d)$')
      local kept = c:expect '^EVT assigned c (%d,%d)$'
      e:send 'SUB t e group=g\r\n'
      e:expect_line 'OK'
      local taken = e:expect '^EVT assigned e (%d)$'
      -- One of the two gives one away.
      if kept:find(taken) then c:expect '^EVT assigned c %d$' else d:expect '^EVT assigned d %d$' end
      local before = shares()
      d:close()
      -- Those that stay keep what they had.
      assert(wait.poll(function()
        while c.input:find '\n' do c:expect '^EVT' end
        local after = shares()
        return not after.d and #after.c == 3 and #after.e == 3
          and after.c:find(before.c, 1, true) and after.e:find(before.e, 1, true)
      end))
      e:close()
      c:drain_until '^EVT assigned c 0,1,2,3$'
    end)

    it('gives a partition to one of them alone', function()
      declare()
      local d = broker:connect()
      sub(c, 'c group=g')
      sub(d, 'd group=g', '-')
      d:ok('PUB - t', 'a')
      d:ok('PUB - t', 'b')
      expect_payloads(c, 'a', 'b')
      d:expect_nothing()
      d:close()
    end)

    it('reads a partition on when nothing of it is held any more', function()
      declare()
      local d, p = broker:connect(), broker:connect()
      sub(c, 'c group=g')
      sub(d, 'd group=g', '-')
      p:ok('PUB - t', 'a')
      p:ok('PUB - t', 'b')
      expect_payloads(c, 'a', 'b')
      c:ok 'UNSUB c'
      d:expect_line 'EVT assigned d 0'
      p:ok('PUB - t', 'c')
      d:expect_nothing()
      c:ok 'ACK 1'
      d:expect_nothing()
      c:ok 'ACK 2'
      expect_payloads(d, 'c')
      p:close()
      d:close()
    end)

    it('gives what a lost consumer held to the next one, in order', function()
      declare()
      local d, p = broker:connect(), broker:connect()
      sub(d, 'd group=g')
      sub(c, 'c group=g', '-')
      for i = 1, 5 do p:ok('PUB - t', 'm' .. i) end
      expect_payloads(d, 'm1', 'm2', 'm3', 'm4', 'm5')
      d:ok 'ACK 2'
      d:close()
      c:expect_line 'EVT assigned c 0'
      p:ok('PUB - t', 'm6')
      expect_payloads(c, 'm1', 'm3', 'm4', 'm5', 'm6')
      c:ok 'ACK 1-5'
      expect_committed('g', 6)
      p:close()
    end)

    it('loses nothing and keeps the order, whoever comes and goes', function()
      declare 'partitions=3'
      local count, p = 300, broker:connect()
      for i = 1, count do p:send(('PUB - t h:n=%d quiet 1\r\nx\r\n'):format(i)) end
      p:ok 'PING'
      local consumers, at, acked = {}, {}, 0
      local random = 7 -- the same choices each time
      local function choose(n)
        random = (random * 1103515245 + 12345) % 2147483648
        return random // 65536 % n + 1
      end
      local function join()
        local client = broker:connect()
        client:send(('SUB t s group=g prefetch=%d\r\n'):format(choose(20)))
        client:expect_line 'OK'
        consumers[#consumers + 1] = { client = client, held = {} }
      end
      local function receive(consumer)
        consumer.client:send 'PING\r\n'
        local line
        repeat
          line = assert(consumer.client:read_line(10))
          if line:find '^MSG' then
            local m = consumer.client:delivery(line)
            table.insert(consumer.held, { m.tag, m.options.partition, tonumber(m.options.offset) })
          end
        until line == 'OK'
      end
      local function ack(consumer, n)
        for _ = 1, math.min(n, #consumer.held) do
          local tag, partition, offset = table.unpack(table.remove(consumer.held, 1))
          consumer.client:send(('ACK %s quiet\r\n'):format(tag))
          assert.equal(at[partition] or 0, offset)
          at[partition] = offset + 1
          acked = acked + 1
        end
      end
      while acked < count do
        local what = choose(10)
        local who = #consumers > 0 and choose(#consumers)
        if not who or (what == 1 and #consumers < 4) then
          join()
        elseif what == 2 and #consumers > 1 then
          table.remove(consumers, who).client:close()
          assert(wait.poll(function() return #c:document 'LIST consumers' == #consumers end))
        else
          receive(consumers[who])
          ack(consumers[who], choose(12))
          receive(consumers[who])
        end
      end
      for _, consumer in ipairs(consumers) do consumer.client:close() end
      p:close()
      for i = 1, 3 do assert.equal(at[tostring(i - 1)] or 0, group('g').partitions[i].committed) end
    end)

    it('hands everything back when a channel closes', function()
      declare()
      c:send '@1 OPEN\r\n@1 SUB t s group=g\r\n'
      c:expect_line '@1 OK'
      c:expect_line '@1 OK'
      c:expect_line '@1 EVT assigned s 0'
      publish 'a'
      c:expect_msg(nil, 1)
      c:send '@1 CLOSE\r\n'
      c:expect_line '@1 OK'
      sub(c, 's group=g')
      local m = expect_payloads(c, 'a')
      assert.same({ 1, true }, { m.attempt, m.redelivered })
    end)

    it('ends with its topic', function()
      declare()
      publish 'a'
      sub(c, 's group=g')
      expect_payloads(c, 'a')
      local d = broker:connect()
      d:ok 'DELETE topic t'
      d:close()
      c:expect_line 'EVT cancelled s topic-deleted'
      c:expect_answer('ACK 1', 'ERR lease-lost tag 1 ' .. LOST)
      declare()
      assert.same({}, c:document 'LIST groups')
    end)
  end)

  describe('through a restart', function()
    it('goes on where it has committed', function()
      declare()
      publish('a', 'b', 'c')
      sub(c, 's group=g')
      expect_payloads(c, 'a', 'b', 'c')
      c:ok 'ACK 1-2'
      broker:restart()
      c = broker:connect()
      assert.equal(2, group('g').partitions[1].committed)
      sub(c, 's group=g')
      expect_payloads(c, 'c')
    end)

    it('reads nothing again after kill -9 that was committed, and loses nothing', function()
      declare()
      for i = 1, 20 do publish('m' .. i) end
      sub(c, 's group=g')
      for _ = 1, 20 do c:expect_msg() end
      c:ok 'ACK 1-10'
      expect_committed('g', 10)
      c:ok 'ACK 11-12'
      broker:kill9()
      broker:run()
      c = broker:connect()
      local at = group('g').partitions[1].committed
      assert.is_true(at == 10 or at == 12)
      sub(c, 's group=g')
      for i = at + 1, 20 do expect_payloads(c, 'm' .. i) end
    end)

    it('writes what it has committed when Redis is back', function()
      declare()
      publish('a', 'b')
      sub(c, 's group=g')
      expect_payloads(c, 'a', 'b')
      broker:kill9_redis()
      assert.equal('2', c:ok 'ACK 1-2')
      expect_committed('g', 2)
    end)

    it('writes what Redis has refused', function()
      declare()
      publish('a', 'b')
      sub(c, 's group=g')
      expect_payloads(c, 'a', 'b')
      expect_committed('g', 0)
      broker:redis_cli('CONFIG', 'SET', 'maxmemory', '1')
      assert.equal('1', c:ok 'ACK 1')
      broker:expect_log('the offsets that groups have committed in partition 0 are not written: OOM')
      broker:redis_cli('CONFIG', 'SET', 'maxmemory', '0')
      expect_committed('g', 1)
    end)

    it('goes on at the end of a log that was restored from an older copy', function()
      declare()
      publish('a', 'b')
      sub(c, 's group=g')
      expect_payloads(c, 'a', 'b')
      c:ok 'ACK 1-2'
      expect_committed('g', 2)
      broker:redis_cli('HSET', ('tide:{%s/t#0}:groups'):format(broker.vhost), 'g', '4')
      broker:kill9()
      broker:run()
      c = broker:connect()
      broker:expect_log "group 'g' has committed offset 4 of partition 0, which ends at 2: it goes on at its end"
      assert.equal(0, group('g').lag)
      publish('c', 'd', 'e')
      assert.equal(3, group('g').lag)
      sub(c, 's group=g')
      expect_payloads(c, 'c', 'd', 'e')
    end)

    it('keeps where a new group begins', function()
      declare()
      publish('a', 'b')
      sub(c, 's group=g from=last')
      expect_committed('g', 2)
      broker:kill9()
      broker:run()
      c = broker:connect()
      publish 'c'
      sub(c, 's group=g')
      expect_payloads(c, 'c')
    end)
  end)

  -- What takes the first of two messages away, or both; where the groups go on.
  for line, start in pairs {
    ['PURGE t before=1'] = 1,
    ['PURGE t'] = 2,
    ['DECLARE topic t update retention-count=1'] = 1,
    ['DECLARE topic t update retention-bytes=1'] = 1,
    ['SEEK t %s 1'] = 1,
    ['SEEK t %s last'] = 2,
  } do
    -- A copy that nobody takes is tried again for ever.
    for _, how in ipairs { 'delay=1h', 'dead' } do
      it(('waits no longer for what is gone: NACK %s, %s'):format(how, line), function()
        local d, e = broker:connect(), broker:connect()
        c:ok 'DECLARE queue full max-length=1'
        c:ok('PUB - full', 'x')
        declare 'partitions=1 dead-letter=-/full'
        publish('a', 'b')
        sub(c, 's group=g prefetch=1')
        expect_payloads(c, 'a')
        c:ok('NACK 1 ' .. how)
        assert.equal('a', d:get 't group=h'[1].payload)
        d:ok('NACK 1 ' .. how)
        d:send 'GET t group=h wait=20s\r\n'
        e:ok(line:format 'g')
        if line:find '^SEEK' then
          e:ok(line:format 'h')
        else
          c:expect_line('EVT skipped s 0 0 ' .. start)
          d:expect_line('EVT skipped - 0 0 ' .. start)
        end
        if start == 1 then
          expect_payloads(c, 'b')
          c:ok 'ACK 2'
        end
        e:ok('PUB - t', 'new')
        expect_payloads(c, 'new')
        d:expect_line 'OK 1'
        expect_payloads(d, start == 1 and 'b' or 'new')
      end)
    end
  end

  it('goes on when what held it back is gone, though 100,000 messages were settled behind that', function()
    declare 'partitions=1 order=0'
    sub(c, 's group=g prefetch=1')
    publish 'a'
    expect_payloads(c, 'a')
    c:ok 'NACK 1 delay=1h'
    c:ok 'UNSUB s'
    c:send(('PUB - t quiet 1\r\nx\r\n'):rep(100010))
    c:ok 'PING'
    local d = broker:connect()
    repeat until #d:get 't group=g max=1000 ack=auto' == 0
    assert.is_true(group('g').partitions[1].stopped)
    d:send 'GET t group=g wait=20s\r\n'
    c:ok 'PURGE t before=1'
    d:expect_line 'EVT skipped - 0 0 1'
    d:expect_line 'OK 1'
  end)

  describe('that is moved by SEEK', function()
    it('goes on there, and forgets what is held', function()
      declare()
      publish('a', 'b', 'c')
      sub(c, 's group=g')
      expect_payloads(c, 'a', 'b', 'c')
      c:send 'SEEK t g 1\r\n'
      c:expect_line 'OK'
      expect_payloads(c, 'b', 'c')
      expect_committed('g', 1)
      c:expect_answer('ACK 1', 'ERR lease-lost tag 1 ' .. LOST)
      c:ok 'ACK 4-5'
      expect_committed('g', 3)
    end)

    it('goes to the first, the last, or a time', function()
      declare()
      publish('a', 'b')
      sub(c, 's group=g ack=auto')
      expect_payloads(c, 'a', 'b')
      c:ok 'UNSUB s'
      for position, offset in pairs { first = 0, last = 2, ['1'] = 1, ['@0'] = 0, ['99'] = 2 } do
        c:ok('SEEK t g ' .. position)
        expect_committed('g', offset)
      end
      c:ok 'SEEK t g 1h'
      expect_committed('g', 0)
      sub(c, 's group=g')
      expect_payloads(c, 'a', 'b')
    end)

    it('refuses what makes no sense', function()
      declare()
      c:expect_answer('SEEK t g first', "ERR not-found topic 't' has no group 'g'")
      c:expect_answer('SEEK u g first', "ERR not-found there is no topic 'u' in vhost '" .. broker.vhost .. "'")
      sub(c, 's group=g')
      c:expect_answer('SEEK t g committed',
        'ERR syntax SEEK moves what is committed: expected first, last, an offset or a time')
      c:expect_answer('SEEK t g first partition=1', "ERR not-found topic 't' has no partition 1: it has 1, from 0 on")
    end)
  end)

  it('is deleted when it has no members', function()
    declare()
    publish 'a'
    sub(c, 's group=g')
    expect_payloads(c, 'a')
    c:expect_answer('DELETE group t g', "ERR exists group 'g' is in use: it has 1 members")
    c:ok 'UNSUB s'
    c:ok 'DELETE group t g'
    expect_committed('g', '')
    assert.same({}, c:document 'LIST groups')
    c:expect_answer('ACK 1', 'ERR lease-lost tag 1 ' .. LOST)
    c:expect_answer('DELETE group t g', "ERR not-found topic 't' has no group 'g'")
    c:expect_answer('DELETE group t', 'ERR syntax DELETE group needs <topic> and <group>: <group> is missing')
    c:expect_answer('DELETE queue t g', "ERR syntax DELETE queue has no flag 'g'; it takes: if-empty if-unused quiet")
  end)

  it('is shown', function()
    declare 'partitions=2'
    sub(c, 's group=g prefetch=7', '0,1')
    c:ok('PUB - t', 'a')
    c:expect_msg()
    local g = group 'g'
    assert.equal('t', g.topic)
    assert.equal(1, g.members)
    assert.equal(1, g.lag)
    assert.is_true(g.lag_ms >= 0 and g.lag_ms < 60000)
    assert.equal(1, g.partitions[1].held + g.partitions[2].held)
    assert.same(g.partitions, c:stats('t').groups[1].partitions)
    local consumer = c:document('LIST consumers')[1]
    assert.equal('g', consumer.group)
    assert.equal('0,1', consumer.partitions)
    assert.equal(1, consumer.unacked)
  end)

  it('has members, each with its partitions and how far behind these are', function()
    declare 'partitions=2 sharding=round_robin'
    local other = broker:connect()
    sub(c, 's group=g prefetch=1', '0,1')
    c:ok 'SUB t reader'
    other:send 'SUB t r group=g prefetch=1\r\n'
    c:expect_line 'EVT assigned s 0'
    other:expect_line 'OK'
    other:expect_line 'EVT assigned r 1'
    local watcher = broker:connect()
    topics.publish(watcher, 'a', 'b', 'c')
    local members = watcher:document 'LIST consumers queue=t group=g sort=lag'
    assert.same({ 2, 's', '0', 2, 'r', '1', 1 }, { #members,
      members[1].sid, members[1].partitions, members[1].lag, members[2].sid, members[2].partitions, members[2].lag })
    assert.same({}, watcher:document 'LIST consumers group=h')
    for i, p in ipairs(topics.group(watcher, 'g').partitions) do
      assert.same({ members[i].connection, members[i].channel, members[i].sid }, { p.connection, p.channel, p.sid })
    end
    assert.matches('GROUP%s+PARTITIONS%s+LAG.*g%s+0%s+2', (broker:cli('list', 'consumers', '--group', 'g')))
    other:close()
    assert(wait.poll(function() return #watcher:document 'LIST consumers group=g' == 1 end))
    watcher:close()
  end)

  it('begins, seeks, peeks and purges so many messages before the end', function()
    declare()
    publish('m1', 'm2', 'm3', 'm4')
    local function payloads(words)
      local list = {}
      for _, m in ipairs(c:get(words)) do list[#list + 1] = m.payload end
      return table.concat(list, ' ')
    end
    assert.equal('m3 m4', payloads 't group=g from=last-2 max=10 ack=auto')
    assert.equal('m4', payloads 't partition=0 offset=last-1 max=10')
    assert.equal('m1 m2 m3 m4', payloads 't partition=0 offset=last-100 max=10')
    assert.equal('', payloads 't partition=0 offset=last-0 max=10')
    c:ok 'SEEK t g last-3'
    assert.equal('m2 m3 m4', payloads 't group=g max=10 ack=auto')
    assert.equal('m4', c:document 'PEEK t 10 partition=0 offset=last-1'.messages[1].payload)
    c:ok 'SUB t r from=last-1 ack=auto'
    assert.equal('m4', c:expect_msg().payload)
    c:ok 'UNSUB r'
    assert.equal('3', c:ok 'PURGE t before=last-1')
    c:ok 'SUB t r from=last-9 ack=auto'
    assert.equal('m4', c:expect_msg().payload)
  end)

  it('refuses options that are not for it', function()
    declare()
    c:ok 'DECLARE queue q'
    c:expect_answer('SUB q s group=g', "ERR syntax group=, from= and partition= are for topics, and 'q' is a queue")
    c:expect_answer('SUB t s group=g partition=0',
      'ERR syntax partition= is for those who read without a group: a group shares all partitions')
    c:expect_answer('SUB t s group=g notify-lease=1s', "ERR syntax notify-lease= is for queues, and 't' is a topic")
    c:expect_answer('SUB t s group=g priority=1',
      "ERR syntax priority= is for queues: the members of a group share the partitions of topic 't'")
    local answer = c:request 'SUB t s group=g from=yesterday'
    assert.is_truthy(answer:find "^ERR syntax 'yesterday' is no position: expected first, last, last%-100, an offset")
    c:expect_answer('SUB t s partition=1', "ERR not-found topic 't' has no partition 1: it has 1, from 0 on")
    c:expect_answer('SUB t s from=committed',
      'ERR syntax from=committed needs a group: who reads without one commits nothing')
  end)
end)
