-- BEGIN, COMMIT, ROLLBACK: publishes and settles that take place together, or not at all.
local Broker = require 'support.broker'
local Client = require 'support.client'
local Redis = require 'support.redis'
local traffic = require 'support.traffic'
local wait = require 'support.wait'

local payloads = Client.payloads

--- All that a queue gives, and gives back.
local function content(c, queue)
  local list = payloads(c:get(queue .. ' max=1000'))
  return list
end

describe('a transaction', function()
  local broker, c

  setup(function()
    broker = Broker.start {
      args = {
        '--window-messages', '16', '--fsync', 'no', '--max-transaction-messages', '20000', '--rules-budget', '2s',
      },
      rules = { ['filter/50_test.lua'] = [[
        return {
          match = { exchange = 'filtered' },
          publish = function(msg)
            if msg.headers.refuse then return false, 'it says so' end
            if msg.headers.slow then
              local n = 0
              for i = 1, 1000000 do n = n + i end
            end
          end,
        }]] },
    }
  end)
  teardown(function() broker:expect_clean_stop() end)
  before_each(function() c = broker:enter_vhost() end)
  after_each(function() c:close() end)

  for _, durable in ipairs { 0, 1 } do
    describe('with durable=' .. durable .. ',', function()
      before_each(function()
        c:ok('DECLARE queue in retry=immediate durable=' .. durable)
        c:ok('DECLARE queue out durable=' .. durable)
        c:ok('DECLARE exchange filtered fanout durable=' .. durable)
        c:ok 'BIND out filtered -'
      end)

      it('publishes and settles with COMMIT, and nothing before', function()
        for i = 1, 4 do c:ok('PUB - in', 'in' .. i) end
        assert.equal(4, #c:get 'in max=4')
        c:expect_answer('BEGIN', 'OK')
        assert.equal('OK queued', c:request('PUB - out', 'a'))
        assert.equal('OK queued', c:request('PUB - out pri=3 h:x=1', 'b'))
        assert.equal('OK queued', c:request 'ACK 1-2')
        assert.equal('OK queued', c:request 'NACK 3 requeue')
        assert.same({}, content(c, 'out'))
        assert.equal(4, c:stats('in').unacked)
        c:expect_answer('COMMIT', 'OK 2 3')
        local s = c:stats 'in'
        assert.same({ 1, 1, 2, 1 }, { s.unacked, s.ready, s.acked, s.nacked })
        assert.same({ 'a', 'b' }, content(c, 'out'))
        local back = c:get 'in'[1]
        assert.same({ 'in3', 1, true }, { back.payload, back.attempt, back.redelivered })
        c:ok 'ACK 4'
      end)

      it('does nothing after ROLLBACK, and everything can be settled again', function()
        c:ok('PUB - in', 'x')
        c:get 'in'
        c:ok 'BEGIN'
        c:ok('PUB - out', 'a')
        c:ok 'ACK 1'
        c:expect_answer('ROLLBACK', 'OK')
        assert.equal(1, c:stats('in').unacked)
        c:expect_answer('ACK 1', 'OK 1')
        assert.same({}, content(c, 'out'))
        c:expect_answer('COMMIT', 'ERR not-found this channel has no transaction: send BEGIN first')
        c:expect_answer('ROLLBACK', 'ERR not-found this channel has no transaction: send BEGIN first')
      end)

      it('gives its messages ids and times of the COMMIT', function()
        c:ok 'BEGIN'
        c:ok('PUB - out', 'early')
        c:ok('PUB - out delay=1s', 'later')
        local other = broker:connect()
        other:ok('PUB - out', 'between')
        c:expect_answer('COMMIT', 'OK 2 0')
        assert.same({ 'between', 'early' }, content(c, 'out'))
        assert.equal('later', c:get('out wait=10s')[1].payload)
        other:close()
      end)

      it('settles by every kind of NACK', function()
        c:ok('DECLARE queue dead durable=' .. durable)
        c:ok(('DECLARE queue work durable=%d dead-letter=-/dead'):format(durable))
        for i = 1, 5 do c:ok('PUB - work', 'w' .. i) end
        assert.equal(5, #c:get 'work max=5')
        c:ok 'BEGIN'
        c:ok 'NACK 1 dead reason=hopeless'
        c:ok 'NACK 2 delay=1h reason=not%20now'
        c:ok 'NACK 3 requeue'
        c:ok 'NACK 4'
        c:ok 'ACK 5'
        assert.equal(0, c:stats('dead').ready)
        c:expect_answer('COMMIT', 'OK 0 5')
        local dead = c:get 'dead'[1]
        assert.same({ 'w1', 'rejected', 'hopeless' },
          { dead.payload, dead.headers['x-death-reason'], dead.headers['x-death-reason-text'] })
        assert.equal('not now', c:peek('work state=delayed')[1].reason_text)
        local s = c:stats 'work'
        assert.same({ 4, 1, 1, 0 }, { s.nacked, s.acked, s.dead_lettered, s.unacked })
        assert.equal(3, s.ready + s.delayed)
      end)

      it('buries what nobody takes as a dead letter', function()
        c:ok('PUB - in', 'x')
        c:get 'in'
        c:ok 'BEGIN'
        c:ok 'NACK 1 dead'
        c:expect_answer('COMMIT', 'OK 0 1')
        assert.equal(1, c:stats('in').buried)
        c:expect_answer('KICK in', 'OK 1')
        assert.same({ 'x' }, content(c, 'in'))
      end)

      it('refuses its COMMIT after a request that was refused, whatever was wrong', function()
        c:ok('PUB - in', 'x')
        c:get 'in'
        for request, why in pairs {
          ['PUB - out later 1\r\nx\r\n'] = 'ERR syntax ',
          ['PUB nowhere out 1\r\nx\r\n'] = 'ERR not-found ',
          ['ACK 17\r\n'] = 'ERR not-found ',
          ['NACK 1 dead requeue\r\n'] = 'ERR syntax ',
          ['AKC 1\r\n'] = 'ERR unknown-verb ',
          ['PUB - out h:x-death-x=1 1\r\nx\r\n'] = 'ERR denied ',
        } do
          c:ok 'BEGIN'
          c:ok('PUB - out', 'a')
          c:send(request)
          c:expect('^' .. why:gsub('%-', '%%-'))
          assert.matches('^ERR aborted the transaction has failed with request 2', c:request 'ACK 1')
          assert.equal(why .. 'nothing was applied: request 2: ', c:request 'COMMIT':sub(1, #why + 32))
          assert.equal(1, c:stats('in').unacked)
          assert.same({}, content(c, 'out'))
        end
        c:expect_answer('ACK 1', 'OK 1')
      end)

      it('is not failed by a request that is no part of it', function()
        c:ok 'BEGIN'
        c:ok('PUB - out', 'a')
        assert.matches('^ERR not%-found', c:request 'GET nowhere')
        assert.matches('^ERR exists', c:request 'BEGIN')
        c:ok('DECLARE queue more durable=' .. durable)
        c:expect_answer('COMMIT', 'OK 1 0')
      end)

      it('fails as a whole when one of its publishes does', function()
        c:ok('PUB - in', 'x')
        c:get 'in'
        for request, why in pairs {
          ['PUB - nowhere must'] = "unroutable nothing was applied: request 2: no queue takes key 'nowhere'",
          ['PUB filtered - h:refuse=1'] = 'rejected nothing was applied: request 2: ',
        } do
          c:ok 'BEGIN'
          c:ok('PUB - out', 'a')
          c:ok(request, 'b')
          c:ok 'ACK 1'
          assert.matches('^ERR ' .. why, c:request 'COMMIT')
          assert.same({}, content(c, 'out'))
          assert.equal(1, c:stats('in').unacked)
        end
        c:expect_answer('ACK 1', 'OK 1')
      end)

      it('fails as a whole when a lease was lost, or a queue or exchange has gone', function()
        c:ok('DECLARE queue short ack-timeout=100ms durable=' .. durable)
        c:ok('PUB - short', 'x')
        c:get 'short'
        c:ok 'BEGIN'
        c:ok('PUB - out', 'a')
        c:ok 'ACK 1'
        assert(wait.poll(function() return c:stats('short').timed_out == 1 end))
        assert.matches('^ERR lease%-lost nothing was applied: request 2: tag 1 is no longer held', c:request 'COMMIT')
        c:ok('DECLARE exchange e topic durable=' .. durable)
        c:ok 'BEGIN'
        c:ok('PUB e k', 'a')
        c:ok 'DELETE exchange e'
        assert.matches("^ERR not%-found nothing was applied: request 1: there is no exchange 'e' in vhost '",
          c:request 'COMMIT')
        assert.same({}, content(c, 'out'))
      end)

      it('settles a message once', function()
        for i = 1, 5 do c:ok('PUB - in', 'x' .. i) end
        c:get 'in max=5'
        c:ok 'BEGIN'
        c:ok 'ACK 2'
        c:ok 'ACK 1-4'
        c:ok 'TOUCH 2 for=1h'
        c:expect_answer('COMMIT', 'OK 0 4')
        c:ok 'BEGIN'
        c:ok 'ACK 5'
        assert.equal('ERR lease-lost tag 5 is settled by a transaction already', c:request 'ACK 5')
        assert.matches('^ERR lease%-lost nothing was applied: request 2', c:request 'COMMIT')
        c:expect_answer('ACK 1-5', 'OK 1')
      end)

      it('ends with its channel, and with its connection', function()
        for i = 1, 2 do c:ok('PUB - in', 'x' .. i) end
        local other = broker:connect()
        other:expect_answer('@1 OPEN', '@1 OK')
        other:send '@1 GET in\r\n'
        other:expect '^@1 OK 1$'
        other:expect_msg(nil, 1)
        other:expect_answer('@1 BEGIN', '@1 OK')
        other:expect_answer('@1 ACK 1', '@1 OK queued')
        other:send '@1 PUB - out 1\r\nx\r\n'
        other:expect_line '@1 OK queued'
        other:expect_answer('BEGIN', 'OK')
        other:ok('PUB - out', 'y')
        other:expect_answer('@1 CLOSE', '@1 OK')
        traffic.expect_counts(c, 'in', { ready = 2, unacked = 0 })
        other:close()
        assert(wait.poll(function() return c:document 'STATS'.transactions.open == 0 end))
        assert.equal(0, c:document 'STATS'.transactions.bytes)
        assert.same({}, content(c, 'out'))
      end)

      it('forgets a publish id when it is refused, and finds one in itself', function()
        c:ok 'BEGIN'
        c:ok('PUB - out id=1', 'a')
        c:ok('PUB - nowhere must', 'b')
        assert.matches('^ERR unroutable', c:request 'COMMIT')
        c:ok 'BEGIN'
        c:ok('PUB - out id=1', 'c')
        c:ok('PUB - out id=1', 'd')
        c:expect_answer('COMMIT', 'OK 1 0')
        assert.matches('^OK %x+ 1 duplicate$', c:request('PUB - out id=1', 'e'))
        assert.same({ 'c' }, content(c, 'out'))
      end)

      it('makes the id of a message free, in a queue with dedupe=queued', function()
        c:ok('DECLARE queue once dedupe=queued durable=' .. durable)
        c:ok 'BEGIN'
        c:ok('PUB - once id=1', 'a')
        c:expect_answer('COMMIT', 'OK 1 0')
        c:get 'once'
        assert.matches('^OK %x+ 1 duplicate$', c:request('PUB - once id=1', 'b'))
        c:ok 'BEGIN'
        c:ok 'ACK 1'
        c:expect_answer('COMMIT', 'OK 0 1')
        assert.matches('^OK %x+ 1$', c:request('PUB - once id=1', 'c'))
        assert.same({ 'c' }, content(c, 'once'))
      end)

      it('goes on while other channels do as they like', function()
        c:expect_answer('@1 OPEN', '@1 OK')
        c:expect_answer('@1 BEGIN', '@1 OK')
        c:send '@1 PUB - out 1\r\na\r\n'
        c:expect_line '@1 OK queued'
        c:ok('PUB - out', 'b')
        assert.same({ 'b' }, content(c, 'out'))
        c:expect_answer('@1 COMMIT', '@1 OK 1 0')
        assert.same({ 'a' }, content(c, 'out'))
      end)

      it('works with quiet, in one write', function()
        c:ok('PUB - in', 'x')
        c:get 'in'
        c:send 'BEGIN quiet\r\nPUB - out quiet 1\r\na\r\nACK 1 quiet\r\nCOMMIT\r\n'
        c:expect_line 'OK 1 1'
        c:send 'BEGIN quiet\r\nPUB - out quiet 1\r\nb\r\nACK 1 quiet\r\nCOMMIT quiet\r\n'
        c:expect '^ERR lease%-lost tag 1'
        c:expect '^ERR lease%-lost nothing was applied: request 2'
        assert.same({ 'a' }, content(c, 'out'))
      end)

      it('holds 10,000 publishes and 10,000 acks over many shards', function()
        c:ok(('DECLARE queue many shards=16 sharding=round_robin durable=%d'):format(durable))
        traffic.publish(c, 'in', 10000)
        c:ok 'SUB in s prefetch=10000'
        for _ = 1, 10000 do c:expect_msg() end
        c:send 'BEGIN quiet\r\nACK 1-5000 quiet\r\n'
        local lines = {}
        for i = 1, 10000 do lines[i] = ('PUB - many quiet %d\r\n%d\r\n'):format(#tostring(i), i) end
        c:send(table.concat(lines))
        c:send 'ACK 5001-10000 quiet\r\nCOMMIT\r\n'
        c:expect_line 'OK 10000 10000'
        assert.same({ 0, 0 }, { c:stats('in').unacked, c:stats('in').ready })
        local seen = {}
        for _, payload in ipairs((traffic.take(c, 'many', 10000))) do seen[payload] = true end
        for i = 1, 10000 do assert.is_true(seen[tostring(i)]) end
      end)

      it('lets others work while its filters run', function()
        local other = broker:connect()
        c:send 'BEGIN quiet\r\n'
        c:send(('PUB filtered - quiet h:slow=1 1\r\nx\r\n'):rep(100))
        c:send 'COMMIT\r\nPUB - in 4\r\nnext\r\n'
        -- It is answered while they run, again and again.
        assert(wait.poll(function() return other:document 'STATS'.transactions.bytes > 0 end))
        local answers = 0
        while other:document 'STATS'.transactions.bytes > 0 do answers = answers + 1 end
        assert.is_true(answers >= 2)
        c:expect_line 'OK 100 0'
        c:expect '^OK %x+ 1$'
        c:send 'BEGIN quiet\r\n'
        c:send(('PUB filtered - quiet h:slow=1 1\r\nx\r\n'):rep(60))
        c:send 'COMMIT\r\n'
        assert(wait.poll(function() return other:document 'STATS'.transactions.bytes > 0 end))
        c:close()
        assert(wait.poll(function() return other:document 'STATS'.transactions.open == 0 end))
        other:close()
      end)
    end)
  end

  it('changes queues in memory and in Redis with one COMMIT', function()
    c:ok 'DECLARE queue kept'
    c:ok 'DECLARE queue memory durable=0'
    c:ok('PUB - memory', 'x')
    c:get 'memory'
    c:ok 'BEGIN'
    c:ok('PUB - kept', 'a')
    c:ok('PUB - memory', 'b')
    c:ok 'ACK 1'
    c:expect_answer('COMMIT', 'OK 2 1')
    assert.same({ 'b' }, content(c, 'memory'))
    broker:kill9_all()
    broker:run()
    c = broker:connect()
    assert.same({ 'a' }, content(c, 'kept'))
  end)

  it('survives kill -9 with all that it did, behind a backlog too', function()
    c:ok 'DECLARE queue in'
    c:ok 'DECLARE queue out shards=3'
    traffic.publish(c, 'in', 100)
    traffic.publish(c, 'out', 300)
    local held = c:get 'in max=10'
    assert.equal(10, #held)
    c:ok 'BEGIN'
    c:ok 'ACK 1-5'
    c:ok 'NACK 6-8 delay=1h'
    c:ok 'NACK 9-10 requeue'
    for i = 1, 50 do c:ok('PUB - out ttl=1h', 'new' .. i) end
    c:expect_answer('COMMIT', 'OK 50 10')
    local function check()
      local s = c:stats 'in'
      assert.same({ 95, 3, 0 }, { s.ready + s.delayed, s.delayed >= 3 and 3, s.unacked })
      assert.equal(350, c:stats('out').ready)
    end
    check()
    broker:kill9_all()
    broker:run()
    c = broker:connect()
    check()
    local seen = {}
    for _, payload in ipairs((traffic.take(c, 'out', 350))) do seen[payload] = true end
    for i = 1, 50 do assert.is_true(seen['new' .. i]) end
    assert.equal(0, c:stats('out').ready)
  end)
end)

describe('the limits of transactions', function()
  local broker, c
  local big = ('x'):rep(1000000)

  setup(function()
    broker = Broker.start {
      args = { '--store', 'none', '--max-transaction-messages', '100', '--max-transaction-bytes', '2M',
        '--max-transactions-bytes', '3M' },
    }
  end)
  teardown(function() broker:expect_clean_stop() end)
  before_each(function()
    c = broker:enter_vhost()
    c:ok 'DECLARE queue q'
  end)
  after_each(function() c:close() end)

  it('are bytes of one: what it keeps is given back at once', function()
    c:ok 'BEGIN'
    c:ok('PUB - q', big)
    c:ok('PUB - q', big)
    assert.equal('ERR limit a transaction has 2048 KiB at most (--max-transaction-bytes)', c:request('PUB - q', big))
    assert.equal(0, c:document 'STATS'.transactions.bytes)
    assert.matches('^ERR limit nothing was applied: request 3: a transaction has', c:request 'COMMIT')
    assert.same({}, content(c, 'q'))
  end)

  it('are bytes of all', function()
    local others = {}
    for i = 1, 4 do
      others[i] = broker:connect()
      others[i]:ok 'BEGIN'
      local answer = others[i]:request('PUB - q', big)
      if i < 4 then
        assert.equal('OK queued', answer)
      else
        assert.equal('ERR limit all open transactions together have 3072 KiB at most (--max-transactions-bytes)',
          answer)
      end
    end
    others[1]:ok 'ROLLBACK'
    others[1]:ok 'BEGIN'
    assert.equal('OK queued', others[1]:request('PUB - q', big))
    for i = 1, 4 do others[i]:close() end
    assert(wait.poll(function() return c:document 'STATS'.transactions.open == 0 end))
    assert.equal(0, c:document 'STATS'.transactions.bytes)
  end)

  it('are messages, published and settled', function()
    for _ = 1, 60 do c:ok('PUB - q', 'x') end
    assert.equal(60, #c:get 'q max=60')
    c:ok 'BEGIN'
    c:send(('PUB - q quiet 1\r\nx\r\n'):rep(41))
    assert.equal('ERR limit a transaction publishes and settles 100 messages at most (--max-transaction-messages)',
      c:request 'ACK 1-60')
    assert.matches('^ERR limit nothing was applied: request 42: ', c:request 'COMMIT')
    c:ok 'BEGIN'
    c:send(('PUB - q quiet 1\r\nx\r\n'):rep(40))
    c:expect_answer('ACK 1-60', 'OK queued')
    c:expect_answer('COMMIT', 'OK 40 60')
  end)
end)

describe('a transaction that Redis refuses', function()
  local broker, redis, c, pid

  setup(function()
    redis = Redis.start { '--appendonly', 'no' }
    pid = redis:pid()
    broker = Broker.start { args = { '--store', 'redis+unix:' .. redis.path, '--window-messages', '16' } }
  end)
  teardown(function()
    broker:expect_clean_stop()
    redis:destroy()
  end)
  before_each(function()
    c = broker:enter_vhost()
    c:ok 'DECLARE queue in ack-timeout=1h'
    c:ok 'DECLARE queue out'
    c:ok 'DECLARE queue memory durable=0'
  end)
  after_each(function()
    redis:signal('CONT', pid)
    redis:cli('CONFIG', 'SET', 'maxmemory', '0')
    c:close()
  end)

  it('is seen by nobody, and what it was to settle is still held', function()
    traffic.publish(c, 'in', 40)
    assert.equal(10, #c:get 'in max=10')
    local consumer = broker:connect()
    consumer:ok 'SUB out s'
    consumer:ok 'SUB memory m'
    redis:cli('CONFIG', 'SET', 'maxmemory', '1')
    local function ask()
      c:ok 'BEGIN'
      c:ok('PUB - out id=once', 'a')
      c:ok('PUB - memory id=once', 'b')
      c:ok 'ACK 1-4'
      c:ok 'NACK 5 requeue'
      c:ok 'NACK 6 delay=1h'
      c:ok 'NACK 7 dead'
      return c:request 'COMMIT'
    end
    for _ = 1, 3 do
      assert.matches('^ERR store nothing was applied: OOM', ask())
      consumer:expect_nothing()
      local s = c:stats 'in'
      assert.same({ 10, 30, 0, 0 }, { s.unacked, s.ready, s.delayed, s.buried })
    end
    redis:cli('CONFIG', 'SET', 'maxmemory', '0')
    assert.equal('OK 2 7', ask())
    local got = { consumer:expect_msg().payload, consumer:expect_msg().payload }
    table.sort(got)
    assert.same({ 'a', 'b' }, got)
    consumer:close()
    local s = c:stats 'in'
    assert.same({ 3, 31, 1, 1 }, { s.unacked, s.ready, s.delayed, s.buried })
    c:expect_answer('ACK 8-10', 'OK 3')
  end)

  it('gives back what its connection held, when that ends before Redis answers', function()
    traffic.publish(c, 'in', 5)
    local other = broker:connect()
    assert.equal(5, #other:get 'in max=5')
    redis:signal('STOP', pid)
    other:send 'BEGIN quiet\r\nACK 1-3 quiet\r\nPUB - out quiet 1\r\nx\r\nCOMMIT\r\nPING\r\nACK 1\r\n'
    assert(wait.poll(function() return c:document 'STATS'.transactions.open == 0 end))
    other:close()
    assert(wait.poll(function() return c:stats('in').ready == 2 end))
    redis:signal('CONT', pid)
    assert(wait.poll(function() return c:stats('out').ready == 1 end))
    traffic.expect_counts(c, 'in', { ready = 2, unacked = 0 })
    c:expect_answer('PURGE in', 'OK 2')
  end)

  it('waits for a Redis that is away, and its answer keeps the order of the channel', function()
    traffic.publish(c, 'in', 2)
    c:get 'in max=2'
    redis:signal('STOP', pid)
    c:send 'BEGIN\r\nPUB - out 1\r\na\r\nACK 1\r\nCOMMIT\r\nPING\r\nTOUCH 1\r\nACK 1-2\r\n'
    c:expect_line 'OK'
    c:expect_line 'OK queued'
    c:expect_line 'OK queued'
    local other = broker:connect()
    assert.equal(0, other:stats('out').ready)
    redis:signal('CONT', pid)
    c:expect_line 'OK 1 1'
    c:expect_line 'OK'
    c:expect '^ERR lease%-lost tag 1'
    c:expect_line 'OK 1'
    other:close()
  end)

  it('survives the end of its queues while it is under way', function()
    for _, queue in ipairs { 'in', 'out' } do
      c:ok 'DECLARE queue in ack-timeout=1h'
      c:ok 'DECLARE queue out'
      traffic.publish(c, 'in', 3)
      local other = broker:connect()
      assert.equal(3, #other:get 'in max=3')
      redis:signal('STOP', pid)
      other:send 'BEGIN quiet\r\nACK 1 quiet\r\nNACK 2 delay=1h quiet\r\nPUB - out quiet 1\r\nx\r\nCOMMIT\r\n'
      assert(wait.poll(function() return c:document 'STATS'.transactions.open == 0 end))
      c:send('DELETE queue ' .. queue .. '\r\n')
      redis:signal('CONT', pid)
      c:expect_line 'OK'
      other:expect_line 'OK 1 2'
      if queue == 'in' then
        assert.equal(1, c:stats('out').ready)
        c:ok 'DELETE queue out'
      else
        assert.same({ 1, 1 }, { c:stats('in').delayed, c:stats('in').unacked })
        c:ok 'DELETE queue in'
      end
      other:close()
    end
  end)

  it('leaves PURGE what it published before, behind the window', function()
    traffic.publish(c, 'out', 60)
    redis:signal('STOP', pid)
    c:send 'BEGIN quiet\r\nPUB - out quiet 4\r\nlast\r\nPUB - out pri=9 quiet 5\r\nfirst\r\nCOMMIT\r\n'
    local other = broker:connect()
    assert(wait.poll(function() return other:document 'STATS'.transactions.open == 0 end))
    other:send 'PURGE out\r\n'
    redis:signal('CONT', pid)
    c:expect_line 'OK 2 0'
    other:expect '^OK %d+$'
    -- What is left is what memory has, and Redis has no more and no less.
    local ready = other:stats('out').ready
    assert(wait.poll(function()
      ready = other:stats('out').ready
      return tostring(ready) == redis:cli('ZCARD', broker:key('out', 'ready'))
    end))
    assert.equal(tostring(ready), redis:cli('HLEN', broker:key('out', 'msg')))
    assert.equal(ready, #other:get 'out max=100')
    other:close()
  end)
end)
