-- STOMP over sockets: ACK and NACK, transactions, the end, and input that is no frame.
local Broker = require 'support.broker'
local Stomp = require 'support.stomp'
local wait = require 'support.wait'

describe('a STOMP connection', function()
  local fixture = Stomp.fixture()
  local fresh, queue = fixture.fresh, fixture.queue
  local broker, admin

  setup(function() broker, admin = fixture.broker, fixture.admin end)

  describe('SUBSCRIBE', function()
    local c
    before_each(function() c = Stomp.connect(broker) end)
    after_each(function() c:close() end)

    it('refuses what it cannot do', function()
      for headers, why in pairs {
        [{ destination = '/queue/a' }] = "SUBSCRIBE needs a header 'id'",
        [{ id = '1' }] = "SUBSCRIBE needs a header 'destination'",
        [{ id = '1', destination = '/queue/a', ack = 'maybe' }] =
          'header ack:maybe: expected auto, client or client-individual',
        [{ id = '1', destination = '/queue/a', selector = 'a > 1' }] =
          'there are no selectors: subscribe to a pattern of an exchange, or route by headers',
        [{ id = '1', destination = '/queue/a', ['prefetch-count'] = '-1' }] =
          'header prefetch-count:-1: expected a number from 0 to 65535',
        [{ id = '1', destination = '/queue/a', ['x-queue-type'] = 'odd' }] =
          'header x-queue-type:odd: expected classic, quorum or stream',
      } do
        local one = Stomp.connect(broker)
        one:frame('SUBSCRIBE', headers)
        one:expect_error(why, { code = 'syntax' })
      end
      local q = fresh()
      c:subscribe('1', '/queue/' .. q)
      c:frame('SUBSCRIBE', { id = '1', destination = '/queue/' .. q })
      c:expect_error("this connection has a subscription '1' already", { code = 'exists' })
    end)

    it('gives no more than prefetch-count messages that are not acknowledged', function()
      local q = fresh()
      for i = 1, 3 do c:ask('SEND', { destination = '/queue/' .. q }, tostring(i)) end
      c:frame('SUBSCRIBE', { id = '1', destination = '/queue/' .. q, ack = 'client-individual',
        ['prefetch-count'] = 1 })
      for i = 1, 3 do
        local m = c:expect('MESSAGE', nil, tostring(i))
        c:expect_nothing()
        c:frame('ACK', { id = m.headers.ack })
      end
    end)

    it('ends with UNSUBSCRIBE, and what it holds can still be settled', function()
      local q = fresh()
      for i = 1, 3 do c:ask('SEND', { destination = '/queue/' .. q }, tostring(i)) end
      c:frame('SUBSCRIBE', { id = '1', destination = '/queue/' .. q, ack = 'client-individual' })
      local held = {}
      for i = 1, 3 do held[i] = c:expect('MESSAGE', { redelivered = 'false' }, tostring(i)).headers.ack end
      c:ask('UNSUBSCRIBE', { id = '1' })
      c:subscribe('1', '/queue/' .. q, { ack = 'client' })
      c:ask('ACK', { id = held[1] })
      assert.equal(2, queue(q).unacked)
      c:ask('BEGIN', { transaction = 't' })
      c:ask('ACK', { id = held[2], transaction = 't' })
      c:ask('COMMIT', { transaction = 't' })
      c:ask('NACK', { id = held[3], requeue = 'true' })
      c:ask('ACK', { id = c:expect('MESSAGE', { redelivered = 'true' }, '3').headers.ack })
      c:frame('UNSUBSCRIBE', { id = '2' })
      c:expect_error("this connection has no subscription '2'", { code = 'not-found' })
    end)

    it('ends with an ERROR when its queue is deleted', function()
      local q = fresh()
      c:subscribe('1', '/queue/' .. q)
      admin:ok('DELETE queue ' .. q)
      c:expect_error("the subscription '1' has ended: its queue was deleted", { code = 'not-found' })
    end)

    it('may be made and ended any number of times, and by the hundred', function()
      local q = fresh()
      for _ = 1, 300 do
        c:frame('SUBSCRIBE', { id = '1', destination = '/queue/' .. q })
        c:frame('UNSUBSCRIBE', { id = '1' })
      end
      for i = 1, 200 do c:subscribe(tostring(i), '/queue/' .. q) end
      assert.equal(200, queue(q).consumers)
    end)

    it('may end any number of times with a message in work', function()
      local q = fresh()
      for i = 1, 300 do
        c:frame('SUBSCRIBE', { id = '1', destination = '/queue/' .. q, ack = 'client', ['prefetch-count'] = 1 })
        c:frame('SEND', { destination = '/queue/' .. q }, tostring(i))
        local m = c:expect('MESSAGE', nil, tostring(i))
        c:frame('UNSUBSCRIBE', { id = '1' })
        c:ask('ACK', { id = m.headers.ack })
      end
      assert.equal(0, queue(q).unacked)
    end)
  end)

  describe('ACK and NACK', function()
    local c, q
    before_each(function()
      c, q = Stomp.connect(broker), fresh()
      for i = 1, 4 do c:ask('SEND', { destination = '/queue/' .. q }, tostring(i)) end
    end)
    after_each(function() c:close() end)

    local function subscribe(ack, one)
      one = one or c
      one:frame('SUBSCRIBE', { id = 's', destination = '/queue/' .. q, ack = ack })
      local got = {}
      for i = 1, 4 do got[i] = one:expect('MESSAGE', nil, tostring(i)).headers end
      return got
    end

    it('with ack:client are for all messages up to one', function()
      local got = subscribe 'client'
      c:ask('ACK', { id = got[3].ack })
      assert.equal(1, queue(q).unacked)
      c:ask('NACK', { id = got[4].ack, requeue = 'true' })
      c:expect('MESSAGE', { redelivered = 'true' }, '4')
    end)

    it('with ack:client-individual are for one message', function()
      local got = subscribe 'client-individual'
      c:ask('ACK', { id = got[3].ack })
      c:ask('ACK', { id = got[1].ack })
      assert.equal(2, queue(q).unacked)
      c:frame('NACK', { id = got[2].ack })
      c:expect('MESSAGE', { redelivered = 'true' }, '2')
    end)

    it('are named by message-id in 1.1 and 1.0', function()
      local one = Stomp.connect(broker, { ['accept-version'] = '1.1' })
      local got = subscribe('client-individual', one)
      assert.is_nil(got[1].ack)
      one:ask('ACK', { ['message-id'] = got[1]['message-id'], subscription = 's' })
      assert.equal(3, queue(q).unacked)
      one:frame('ACK', { ['message-id'] = got[2]['message-id'], subscription = 't' })
      one:expect('ERROR', { code = 'not-found' })
      one:close()
      wait.poll(function() return queue(q).ready == 3 end)
      one = Stomp.connect(broker, { ['accept-version'] = '1.0' })
      one:frame('SUBSCRIBE', { destination = '/queue/' .. q, ack = 'client', ['prefetch-count'] = 1 })
      local m = one:expect 'MESSAGE'
      assert.is_nil(m.headers.subscription)
      one:frame('ACK', { ['message-id'] = m.headers['message-id'] })
      one:expect('MESSAGE')
      one:ask('UNSUBSCRIBE', { destination = '/queue/' .. q })
      assert.equal(1, queue(q).unacked)
      one:close()
    end)

    it('dead-letter with requeue:false, and delay with delay', function()
      admin:ok(('DECLARE queue %s.dead'):format(q))
      local name = q .. '.src'
      admin:ok(('DECLARE queue %s dead-letter=-/%s.dead'):format(name, q))
      c:ask('SEND', { destination = '/queue/' .. name }, 'x')
      c:ask('SEND', { destination = '/queue/' .. name }, 'y')
      c:frame('SUBSCRIBE', { id = 'd', destination = '/queue/' .. name, ack = 'client-individual' })
      c:frame('NACK', { id = c:expect('MESSAGE', nil, 'x').headers.ack, requeue = 'false' })
      c:ask('NACK', { id = c:expect('MESSAGE', nil, 'y').headers.ack, delay = '1h' })
      assert.equal(1, queue(q .. '.dead').ready)
      assert.equal(1, queue(name).delayed)
    end)

    it('of a message that is no longer held change nothing', function()
      local got = subscribe 'client-individual'
      c:ask('ACK', { id = got[1].ack })
      c:ask('ACK', { id = got[1].ack })
      c:ask('NACK', { id = got[1].ack })
      assert.equal(3, queue(q).unacked)
    end)

    it('never settle what has come since, with the id of before', function()
      local other, seen = fresh(), {}
      for i = 1, 4 do c:ask('SEND', { destination = '/queue/' .. other }, tostring(i)) end
      -- A subscription with the same name, of the same connection.
      local old = subscribe 'client'
      c:ask('ACK', { id = old[4].ack })
      c:ask('UNSUBSCRIBE', { id = 's' })
      c:frame('SUBSCRIBE', { id = 's', destination = '/queue/' .. other, ack = 'client' })
      for i = 1, 4 do
        local ack = c:expect('MESSAGE', nil, tostring(i)).headers.ack
        seen[ack] = true
        assert.is_nil(seen[old[i].ack])
      end
      -- A lost ACK is an ERROR, which ends the connection.
      local function expect_lost(id)
        c:frame('ACK', { id = id, receipt = 'r' })
        c:expect('ERROR', { code = 'lease-lost', ['receipt-id'] = 'r' })
        c:close()
        c = Stomp.connect(broker)
      end
      expect_lost(old[4].ack)
      assert.equal(4, queue(other).ready)
      -- Another connection.
      c:frame('SUBSCRIBE', { id = 's', destination = '/queue/' .. other, ack = 'client' })
      for i = 1, 4 do assert.is_nil(seen[c:expect('MESSAGE', nil, tostring(i)).headers.ack]) end
      expect_lost((next(seen)))
      assert.equal(4, queue(other).ready)
    end)

    it('never settle what has come since, with an id from before the broker\'s restart', function()
      local own = Broker.start()
      local one, old = Stomp.connect(own), nil
      for i = 1, 3 do one:ask('SEND', { destination = '/queue/jobs' }, tostring(i)) end
      one:frame('SUBSCRIBE', { id = '1', destination = '/queue/jobs', ack = 'client' })
      for _ = 1, 3 do old = one:expect('MESSAGE').headers.ack end
      one:ask('ACK', { id = old })
      one:ask('UNSUBSCRIBE', { id = '1' })
      for i = 4, 6 do one:ask('SEND', { destination = '/queue/jobs' }, tostring(i)) end
      local session = one.connected.headers.session
      own:restart()
      -- The same number of connection, subscription and tag.
      repeat one = Stomp.connect(own) until tonumber(one.connected.headers.session) >= tonumber(session)
      assert.equal(session, one.connected.headers.session)
      one:frame('SUBSCRIBE', { id = '1', destination = '/queue/jobs', ack = 'client' })
      for i = 4, 6 do one:expect('MESSAGE', nil, tostring(i)) end
      one:frame('ACK', { id = old })
      one:expect('ERROR', { code = 'lease-lost' })
      assert.equal(3, own:connect():stats('jobs').ready)
      own:expect_clean_stop()
    end)

    it('are refused for what was never given', function()
      subscribe 'client-individual'
      for _, id in ipairs { '1-99', 'x', '-1', '1-1-1-1', '6881cb0402800000-1-1', '6881cb0402800000-1-1-', '' } do
        local one = Stomp.connect(broker)
        one:frame('SUBSCRIBE', { id = '1', destination = '/queue/none', ack = 'client' })
        one:frame('ACK', { id = id })
        one:expect('ERROR', { code = id == '' and 'syntax' or 'not-found' })
        one:close()
      end
      local auto = fresh()
      c:subscribe('auto', '/queue/' .. auto)
      c:frame('SEND', { destination = '/queue/' .. auto })
      c:frame('ACK', { id = c:expect('MESSAGE').headers['message-id'] })
      c:expect_error("the subscription 'auto' has ack:auto: its messages need no ACK", { code = 'denied' })
    end)
  end)

  describe('transactions', function()
    local c
    before_each(function() c = Stomp.connect(broker) end)
    after_each(function() c:close() end)

    it('have names, several at a time, and span subscriptions', function()
      local a, b, out = fresh(), fresh(), fresh()
      for _, q in ipairs { a, b } do c:ask('SEND', { destination = '/queue/' .. q }, q) end
      c:ask('SEND', { destination = '/queue/' .. a }, 'second')
      c:frame('SUBSCRIBE', { id = a, destination = '/queue/' .. a, ack = 'client-individual' })
      local first, second = c:expect('MESSAGE', nil, a), c:expect('MESSAGE', nil, 'second')
      c:frame('SUBSCRIBE', { id = b, destination = '/queue/' .. b, ack = 'client' })
      local third = c:expect('MESSAGE', nil, b)
      c:ask('BEGIN', { transaction = 't' })
      c:ask('BEGIN', { transaction = 'u' })
      c:ask('ACK', { id = first.headers.ack, transaction = 't' })
      c:ask('ACK', { id = second.headers.ack, transaction = 'u' })
      c:ask('NACK', { id = third.headers.ack, transaction = 't', delay = '1h' })
      c:frame('SEND', { destination = '/queue/' .. out, transaction = 't' }, 'x')
      c:frame('SEND', { destination = '/queue/' .. out, transaction = 'u' }, 'y')
      c:expect_nothing()
      assert.equal(2, queue(a).unacked)
      assert.equal(0, queue(out).ready)
      c:ask('COMMIT', { transaction = 't' })
      assert.equal(1, queue(a).unacked)
      assert.equal(1, queue(b).delayed)
      assert.equal(1, queue(out).ready)
      c:ask('ABORT', { transaction = 'u' })
      assert.equal(1, queue(a).unacked)
      assert.equal(1, queue(out).ready)
      c:ask('ACK', { id = second.headers.ack })
      assert.equal(0, queue(a).unacked)
    end)

    it('confirm their SENDs when COMMIT has made them safe, and never after ABORT', function()
      local q = fresh()
      for _, name in ipairs { 't', 'u' } do
        c:ask('BEGIN', { transaction = name })
        for i = 1, 3 do
          c:frame('SEND', { destination = '/queue/' .. q, transaction = name, receipt = name .. i }, tostring(i))
        end
      end
      c:frame('SEND', { destination = '/queue/' .. q, transaction = 't' }, 'without')
      c:expect_nothing()
      c:ask('ABORT', { transaction = 'u' })
      c:frame('COMMIT', { transaction = 't', receipt = 'done' })
      for i = 1, 3 do c:expect('RECEIPT', { ['receipt-id'] = 't' .. i }) end
      c:expect('RECEIPT', { ['receipt-id'] = 'done' })
      assert.equal(4, queue(q).ready)
      c:ask('BEGIN', { transaction = 'u' })
      c:ask('COMMIT', { transaction = 'u' })
    end)

    it('fail as a whole', function()
      local q = fresh()
      c:ask('BEGIN', { transaction = 't' })
      c:frame('SEND', { destination = '/queue/' .. q, transaction = 't', receipt = 'never' }, '1')
      c:frame('SEND', { destination = '/amq/queue/nowhere', transaction = 't' }, '2')
      c:frame('COMMIT', { transaction = 't', receipt = 'c' })
      local frame = c:expect('ERROR', { ['receipt-id'] = 'c', code = 'unroutable' })
      assert.is_truthy(frame.headers.reason:find '^nothing was applied: ')
      assert.equal(0, queue(q).ready)
    end)

    it('settle messages of a subscription that has ended meanwhile', function()
      local q = fresh()
      c:ask('SEND', { destination = '/queue/' .. q }, 'x')
      c:frame('SUBSCRIBE', { id = '1', destination = '/queue/' .. q, ack = 'client' })
      local m = c:expect 'MESSAGE'
      c:ask('BEGIN', { transaction = 't' })
      c:ask('ACK', { id = m.headers.ack, transaction = 't' })
      c:ask('UNSUBSCRIBE', { id = '1' })
      c:ask('COMMIT', { transaction = 't' })
      assert.equal(0, queue(q).unacked)
      c:ask('BEGIN', { transaction = 't' })
      c:frame('ACK', { id = m.headers.ack, transaction = 't' })
      c:expect('ERROR', { code = 'lease-lost' })
    end)

    it('end with the connection, and nothing of them is done', function()
      local q = fresh()
      c:ask('SEND', { destination = '/queue/' .. q }, 'x')
      c:frame('SUBSCRIBE', { id = '1', destination = '/queue/' .. q, ack = 'client' })
      local m = c:expect 'MESSAGE'
      c:ask('BEGIN', { transaction = 't' })
      c:ask('ACK', { id = m.headers.ack, transaction = 't' })
      c:frame('SEND', { destination = '/queue/' .. q, transaction = 't', receipt = 'never' }, 'y')
      c:ask 'DISCONNECT'
      wait.poll(function() return queue(q).ready == 1 end)
      assert.equal(1, queue(q).ready)
    end)

    it('are refused when they are there, or are not', function()
      for _, case in ipairs {
        { 'COMMIT', "there is no transaction 'n'", 'not-found' }, { 'ABORT', "there is no transaction 'n'",
          'not-found' },
        { 'BEGIN', "there is a transaction 'n' already", 'exists' },
      } do
        local one = Stomp.connect(broker)
        if case[1] == 'BEGIN' then one:frame('BEGIN', { transaction = 'n' }) end
        one:frame(case[1], { transaction = 'n' })
        one:expect_error(case[2], { code = case[3] })
      end
      c:frame('BEGIN', {})
      c:expect_error("BEGIN needs a header 'transaction'")
    end)

    it('have a limit', function()
      for i = 1, 100 do c:frame('BEGIN', { transaction = tostring(i) }) end
      c:frame('BEGIN', { transaction = 'more' })
      c:expect_error('a connection has at most 100 open transactions', { code = 'limit' })
    end)
  end)

  describe('with users', function()
    it('must log in, and a wrong password is told and ends it', function()
      local own = Broker.start { args = { '--fsync', 'no' } }
      local c = own:connect()
      c:ok 'USER add ann pass=secret-enough tags=admin'
      c:ok 'USER grant ann / configure=.* write=.* read=.*'
      local one = Stomp.open(own)
      one:frame('CONNECT', { ['accept-version'] = '1.2' })
      one:expect_error('log in first: CONNECT needs the headers login and passcode', { code = 'denied' })
      one = Stomp.open(own)
      one:frame('CONNECT', { ['accept-version'] = '1.2', login = 'ann', passcode = 'wrong' })
      one:send(Stomp.format('SEND', { destination = '/queue/a' }, 'x'))
      one:expect('ERROR', { code = 'denied', message = 'Bad CONNECT' }, "Access refused for user 'ann'\n")
      assert.is_nil(one:read())
      one = Stomp.open(own)
      one:frame('CONNECT', { ['accept-version'] = '1.2', login = 'ann', passcode = 'secret-enough' })
      one:send(Stomp.format('SEND', { destination = '/queue/a', receipt = '1' }, 'x'))
      one:expect('CONNECTED', { version = '1.2' })
      one:expect('RECEIPT', { ['receipt-id'] = '1' })
      one:close()
      c:close()
      own:expect_clean_stop()
    end)

    it('may do what their user may, for as long as it may', function()
      local own = Broker.start { args = { '--fsync', 'no' } }
      local c = own:connect()
      c:ok 'USER add root pass=secret-enough tags=admin'
      c:ok 'USER grant root / configure=.* write=.* read=.*'
      c:ok 'USER add ann pass=secret-enough'
      local names = '^(ann|stomp-|amq.topic)'
      c:ok(('USER grant ann / configure=%s write=%s read=%s'):format(names, names, names))
      local function ann()
        return Stomp.connect(own, { login = 'ann', passcode = 'secret-enough' })
      end
      local one = ann()
      one:ask('SEND', { destination = '/queue/ann.q' }, 'x')
      one:subscribe('t', '/topic/a.*')
      one:subscribe('1', '/queue/ann.r')
      for command, headers in pairs {
        SEND = { destination = '/queue/bob.q' }, SUBSCRIBE = { id = '2', destination = '/queue/bob.q' },
      } do
        local other = ann()
        other:frame(command, headers)
        other:expect('ERROR', { code = 'denied' })
        other:close()
      end
      c:ok 'USER grant ann / configure=^ann write=^ann read=^ann.q'
      local frame = one:expect('ERROR', { code = 'denied' })
      assert.truthy(frame.headers.reason:find 'has ended: its user may no longer read from the queue$')
      c:close()
      own:expect_clean_stop()
    end)
  end)

  describe('ERROR', function()
    -- The word, and the sentence where RabbitMQ's own tests know it; of ours the body is the reason.
    local cases = {
      { 'SEND', { destination = '/queue/a/b' }, 'Invalid destination', "'/a/b' is not a valid queue destination\n" },
      { 'SEND', { destination = '/queue' }, 'Invalid destination', "'' is not a valid queue destination\n" },
      { 'SEND', { destination = '/queue/' }, 'Invalid destination', "'/' is not a valid queue destination\n" },
      { 'SEND', { destination = '/topic/a b' }, 'Invalid destination', "'/a b' is not a valid topic destination\n" },
      { 'SEND', { destination = '/exchange//k' }, 'Invalid destination',
        "'//k' is not a valid exchange destination\n" },
      { 'SUBSCRIBE', { id = '1', destination = '/amq/queue/a/b' }, 'Invalid destination',
        "'/a/b' is not a valid amqqueue destination\n" },
      { 'SUBSCRIBE', { id = '1', destination = '/else' }, 'Unknown destination' },
      { 'SEND', {}, 'Missing destination' },
      { 'SUBSCRIBE', { id = '1' }, 'Missing destination' },
      { 'SUBSCRIBE', { destination = '/queue/a' }, 'Missing header' },
      { 'SUBSCRIBE', { id = 'twice', destination = '/queue/a' }, 'Duplicated subscription identifier',
        "A subscription identified by 'T_twice' already exists." },
      { 'SUBSCRIBE', { id = '1', destination = '/exchange/none' }, 'not_found',
        "NOT_FOUND - no exchange 'none' in vhost '/'\n" },
      { 'SUBSCRIBE', { id = '1', destination = '/amq/queue/nothing' }, 'not_found' },
      { 'SUBSCRIBE', { id = '1', destination = '/reply-queue/q' }, 'access_refused' },
      { 'SUBSCRIBE', { id = '1', destination = '/queue/a', ack = 'no' }, 'Invalid header' },
      { 'SEND', { destination = '/exchange/none/k' }, 'not_found' },
      { 'SEND', { destination = '/amq/queue/nothing' }, 'no_route' },
      { 'UNSUBSCRIBE', { id = 'none' }, 'No subscription found' },
      { 'ACK', { id = 'x' }, 'Invalid header' },
      { 'ACK', {}, 'Missing header' },
      { 'BEGIN', {}, 'Missing transaction' },
      { 'COMMIT', { transaction = 'none' }, 'Bad transaction' },
      { 'SEND', { destination = '/queue/a', transaction = 'none' }, 'Bad transaction' },
      { 'WRONG', {}, 'Bad command' },
      { 'CONNECT', {}, 'Illegal command' },
    }

    it("has RabbitMQ's word for its message, ours for its code, and a reason", function()
      for _, case in ipairs(cases) do
        local command, headers, word, sentence = table.unpack(case)
        local c = Stomp.connect(broker)
        c:subscribe('twice', '/queue/a')
        headers.receipt = command ~= 'CONNECT' and command ~= 'WRONG' and 'it' or nil
        c:frame(command, headers)
        local frame = c:expect('ERROR', { message = word, ['receipt-id'] = headers.receipt or false })
        local what = command == 'WRONG' and '' or command .. ': '
        assert.equal(sentence or what .. frame.headers.reason .. '\n', frame.body)
        assert.is_truthy(frame.headers.code)
        assert.is_nil(c:read())
      end
    end)

    it('says which version and which login is none', function()
      local c = Stomp.open(broker)
      c:frame('CONNECT', { ['accept-version'] = '3.0' })
      c:expect('ERROR', { message = 'Version mismatch' }, 'Supported versions are 1.0,1.1,1.2\n')
      c = Stomp.open(broker)
      c:frame('CONNECT', { ['accept-version'] = '1.2', host = '//' })
      c:expect('ERROR', { message = 'Bad CONNECT' }, "Virtual host '//' access denied")
      c = Stomp.connect(broker, { ['accept-version'] = '1.0' })
      c:frame('SUBSCRIBE', { destination = '/topic/a', durable = 'true' })
      c:expect('ERROR', { message = 'Missing Header' })
      c = Stomp.connect(broker)
      local q = fresh()
      c:subscribe('1', '/queue/' .. q)
      admin:ok('DELETE queue ' .. q)
      c:expect('ERROR', { message = 'Server cancelled subscription' })
    end)
  end)

  describe('the end', function()
    it('comes with DISCONNECT, whose receipt follows all others', function()
      local c, q = Stomp.connect(broker), fresh()
      for i = 1, 50 do c:frame('SEND', { destination = '/queue/' .. q, receipt = i }, 'x') end
      c:frame('DISCONNECT', { receipt = 'bye' })
      c:frame('SEND', { destination = '/queue/' .. q }, 'too late')
      for i = 1, 50 do c:expect('RECEIPT', { ['receipt-id'] = tostring(i) }) end
      c:expect('RECEIPT', { ['receipt-id'] = 'bye' })
      assert.is_nil(c:read())
      assert.is_true(c.is_closed)
      assert.equal(50, queue(q).ready)
    end)

    it('comes with DISCONNECT without a receipt too', function()
      local c = Stomp.connect(broker)
      c:frame 'DISCONNECT'
      assert.is_nil(c:read())
      assert.is_true(c.is_closed)
    end)

    it('comes with an ERROR, whatever else is owed', function()
      local own = Broker.start { redis = {}, args = { '--fsync', 'no' } }
      local c, line, pid = Stomp.connect(own), own:connect(), own.redis:pid()
      c:subscribe('topic', '/topic/a')
      c:ask('SEND', { destination = '/queue/work' }, 'x')
      c:frame('SUBSCRIBE', { id = 'held', destination = '/queue/work', ack = 'client' })
      c:expect 'MESSAGE'
      own.redis:signal('STOP', pid)
      c:send(Stomp.format('SUBSCRIBE', { id = 'new', destination = '/queue/new', receipt = 'owed' })
        .. Stomp.format 'BOGUS')
      c:expect('ERROR', { code = 'unknown-verb' })
      assert.is_nil(c:read())
      assert.is_true(c.is_closed)
      assert.is_true(wait.poll(function() return line:stats('work').ready == 1 end))
      for _, q in ipairs(line:document 'LIST queues') do assert.is_nil(q.name:find '^stomp%-') end
      own.redis:signal('CONT', pid)
      line:close()
      own:expect_clean_stop()
    end)

    it('comes with KILL, which is told', function()
      local c = Stomp.connect(broker, { ['client-id'] = 'victim' })
      for _, connection in ipairs(admin:document 'LIST connections') do
        if connection.name == 'victim' then admin:ok('KILL connection ' .. connection.connection) end
      end
      c:expect('ERROR', { code = 'denied' })
      assert.is_nil(c:read())
    end)

    it('comes with a stop of the broker, which is told', function()
      local own = Broker.start { args = { '--fsync', 'no' } }
      local c = Stomp.connect(own)
      own:signal 'TERM'
      c:expect_error('the broker is stopping', { code = 'shutdown' })
      own:expect_clean_stop()
    end)

    it('of a peer that is gone returns what it held', function()
      local c, q = Stomp.connect(broker), fresh()
      c:ask('SEND', { destination = '/queue/' .. q }, 'x')
      c:frame('SUBSCRIBE', { id = '1', destination = '/queue/' .. q, ack = 'client' })
      c:expect 'MESSAGE'
      c:close()
      assert.is_true(wait.poll(function() return queue(q).ready == 1 end))
    end)
  end)

  describe('input that is none', function()
    local function expect_refused(text, code, why)
      local c = Stomp.connect(broker)
      c:send(text)
      local frame = c:expect('ERROR', { code = code })
      if why then assert.equal(why, frame.headers.reason) end
      assert.is_nil(c:read())
      assert.is_true(c.is_closed)
    end

    it('is refused by name', function()
      expect_refused('HELLO\n\n\0', 'unknown-verb',
        "'HELLO' is not a command: expected SEND, SUBSCRIBE, UNSUBSCRIBE, ACK, NACK, BEGIN, COMMIT, ABORT or "
          .. 'DISCONNECT')
      expect_refused('send\ndestination:/queue/a\n\n\0', 'unknown-verb')
      expect_refused('SEND\ndestination\n\n\0', 'syntax', "'destination' is not a header: expected name:value")
      expect_refused('SEND\ndestination:/queue/a\nx:\\t\n\n\0', 'syntax')
      expect_refused('BEGIN\0', 'syntax',
        'a NUL is in the headers: an empty line ends them, the NUL ends the body behind it')
      expect_refused('SEND\ndestination:/queue/a\nx:\0\n\n\0', 'syntax')
      expect_refused('BEGIN\ntransaction:t\n\nbody\0', 'syntax', 'BEGIN has no body')
      expect_refused('BEGIN\ntransaction:t\n\n\n\nbody\0', 'syntax', 'BEGIN has no body')
      expect_refused('BEGIN\ntransaction:t\ncontent-length:4\n\n\0', 'syntax', 'BEGIN has no body')
      expect_refused('SEND\ndestination:/queue/a\ncontent-length:3\n\nfour\0', 'syntax',
        'no NUL follows the body of 3 bytes: check content-length')
      expect_refused(('x'):rep(70000), 'too-long',
        'the command and the headers of a frame have at most 65536 bytes')
      expect_refused('SEND\ndestination:/queue/a\n\n' .. ('x'):rep(1048577), 'too-large')
    end)

    it('may be a NUL too many, and line ends in the place of a body', function()
      local c, q = Stomp.open(broker), fresh()
      for byte in ('CONNECT\n\n\n\0\n\0\0'):gmatch '.' do c:send(byte) end
      c:expect 'CONNECTED'
      c:send(('SUBSCRIBE\ndestination:/queue/%s\n\n\r\n\n\0\0\n\0SEND\ndestination:%s\n\n\nx\0'):format(q, q))
      c:expect('MESSAGE', nil, '\nx')
      c:close()
    end)

    it('is refused when it is binary garbage', function()
      local bytes = {}
      math.randomseed(12)
      for i = 1, 5000 do bytes[i] = string.char(math.random(0, 255)) end
      expect_refused(table.concat(bytes):gsub('^[\r\n]+', '') .. '\0\n', 'syntax')
    end)

    it('is refused with 10,000 headers, in one write and in many', function()
      local lines = { 'SEND', 'destination:/queue/a' }
      for i = 1, 10000 do lines[#lines + 1] = ('h%d:'):format(i) end
      local text = table.concat(lines, '\n') .. '\n\n\0'
      expect_refused(text, 'too-long')
      local few = text:sub(1, 1000):gsub('[^\n]*$', '') .. '\n\0'
      expect_refused(few, 'too-long', 'a frame has at most 64 headers besides those of STOMP')
    end)

    it('may be half a frame, for as long as the connection lives', function()
      for _, text in ipairs {
        'SEND', 'SEND\ndest', 'SEND\ndestination:/queue/half\n\n',
          'SEND\ndestination:/queue/half\ncontent-length:10\n\nabc',
        'SEND\ndestination:/queue/half\n\nabc', 'BEGIN\ntransaction:t\n\n',
      } do
        local c = Stomp.connect(broker)
        c:send(text)
        c:close()
      end
      assert.is_nil(wait.poll(function() return queue 'half' and queue('half').ready > 0 end, 0.1))
    end)

    it('of 1.0 has no escapes, and blanks around names and values do not count', function()
      local c, q = Stomp.connect(broker, { ['accept-version'] = '1.0' }), fresh()
      c:send(('SUBSCRIBE\ndestination : /queue/%s \n\n\0'):format(q))
      c:send(('SEND\ndestination: /queue/%s\na\\b: c\\n\n\nx\0'):format(q))
      local m = c:expect 'MESSAGE'
      assert.is_truthy(table.concat(m.order, '\n'):find('a\\b:c\\n', 1, true))
      c:close()
    end)

    it('of 1.0 may have blanks around content-length too: the body is as long as it says', function()
      for _, name in ipairs { ' content-length', 'content-length ', '\tcontent-length \t' } do
        local c, q = Stomp.connect(broker, { ['accept-version'] = '1.0' }), fresh()
        c:send(('SEND\ndestination:/queue/%s\n%s: 600\n\nabc'):format(q, name))
        admin:ok 'PING' -- the NUL comes later
        c:send '\0'
        assert.is_nil(wait.poll(function() return queue(q) and queue(q).ready > 0 end, 0.05))
        c:send(('x'):rep(596) .. '\0')
        c:frame('SUBSCRIBE', { destination = '/queue/' .. q })
        c:expect('MESSAGE', nil, 'abc\0' .. ('x'):rep(596))
        c:close()
      end
    end)

    it('may have an empty body whose NUL comes later', function()
      local c, q = Stomp.connect(broker), fresh()
      c:send(('SEND\ndestination:/queue/%s\n\n'):format(q))
      admin:ok 'PING'
      c:send '\0'
      c:frame('SUBSCRIBE', { id = '1', destination = '/queue/' .. q })
      c:expect('MESSAGE', nil, '')
      c:close()
    end)

    it('in a header of another protocol\'s client does not break frames of 1.0', function()
      local q = fresh()
      admin:ok('DECLARE queue ' .. q)
      admin:ok(('PUB - %s h:a=1%%0d%%0ab:2%%00'):format(q), 'x')
      local c = Stomp.connect(broker, { ['accept-version'] = '1.0' })
      c:frame('SUBSCRIBE', { destination = '/queue/' .. q })
      local m = c:expect('MESSAGE', nil, 'x')
      assert.equal('1  b:2 ', m.headers.a)
      c:close()
    end)
  end)

  describe('limits', function()
    it('of memory hold publishers back and let them go on', function()
      local own = Broker.start { args = { '--fsync', 'no', '--max-memory', '16M' } }
      local c, one, body = Stomp.connect(own), own:connect(), ('x'):rep(100000)
      for i = 1, 170 do c:frame('SEND', { destination = '/queue/big', receipt = i, ['content-length'] = #body },
        body) end
      own:expect_log 'publishers and schedules are held back'
      one:ok 'PURGE big'
      for i = 1, 170 do c:expect('RECEIPT', { ['receipt-id'] = tostring(i) }) end
      own:expect_clean_stop()
    end)
  end)
end)
