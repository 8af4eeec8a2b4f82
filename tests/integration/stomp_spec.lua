-- STOMP over sockets: CONNECT, heart-beats, SEND, SUBSCRIBE, and every destination.
local Broker = require 'support.broker'
local Stomp = require 'support.stomp'
local wait = require 'support.wait'

describe('STOMP', function()
  local fixture = Stomp.fixture()
  local fresh, queue = fixture.fresh, fixture.queue
  local broker, admin

  setup(function() broker, admin = fixture.broker, fixture.admin end)

  --- Wait until no queue of a name like this is left.
  local function expect_gone(pattern)
    local left = wait.poll(function()
      for _, q in ipairs(admin:document 'LIST queues') do
        if q.name:find(pattern) then return false end
      end
      return true
    end)
    assert.is_true(left, 'a queue like ' .. pattern .. ' is left')
  end

  describe('begins', function()
    it('with CONNECT or STOMP, and the highest version that both know', function()
      for _, command in ipairs { 'CONNECT', 'STOMP' } do
        for offered, chosen in pairs {
          ['1.2'] = '1.2', ['1.1'] = '1.1', ['1.0'] = '1.0', ['1.0,1.1,1.2'] = '1.2', ['1.1,1.0'] = '1.1',
          ['1.2, 1.1'] = '1.2', ['1.3,1.1'] = '1.1',
        } do
          local c = Stomp.open(broker)
          c:frame(command, { ['accept-version'] = offered, host = '/' })
          local frame = c:expect('CONNECTED', { version = chosen })
          assert.is_truthy(frame.headers.session:find '^%d+$')
          assert.is_truthy(frame.headers.server:find '^tidemq/%d')
          c:close()
        end
      end
    end)

    it('as 1.0 when the client names no version', function()
      local c = Stomp.connect(broker, { ['accept-version'] = false })
      assert.equal('1.0', c.version)
      c:close()
    end)

    it('with an ERROR that lists the versions when none is common', function()
      local c = Stomp.open(broker)
      c:frame('CONNECT', { ['accept-version'] = '2.0,3.1' })
      c:expect_error('accept-version:2.0,3.1: the broker speaks STOMP 1.0, 1.1 and 1.2', { version = '1.0,1.1,1.2' })
    end)

    it('in any split, after empty lines, with either line end', function()
      for _, text in ipairs {
        'CONNECT\naccept-version:1.2\n\n\0', '\n\r\n\nCONNECT\r\naccept-version:1.2\r\n\r\n\0',
        'STOMP\r\naccept-version:1.2\n\r\n\0',
      } do
        for cut = 1, #text - 1 do
          local c = Stomp.open(broker)
          c:send(text:sub(1, cut))
          c:send(text:sub(cut + 1))
          c:expect('CONNECTED', { version = '1.2' })
          c:close()
        end
      end
    end)

    it('one byte at a time', function()
      local c = Stomp.open(broker)
      for byte in ('CONNECT\naccept-version:1.2\n\n\0'):gmatch '.' do c:send(byte) end
      c:expect 'CONNECTED'
      c:close()
    end)

    it('beside the line protocol, whose first line may look like it', function()
      for _, line in ipairs { 'CONNECTED', 'CONNEC', 'STOMPED', 'STO', 'connect', 'CONNECT x' } do
        local c = broker:connect()
        c:send(line .. '\r\n')
        c:expect '^ERR unknown%-verb'
        c:send 'PING\r\nCONNECT\r\n'
        c:expect_line 'OK'
        c:expect '^ERR unknown%-verb'
        c:close()
      end
    end)

    it('once', function()
      local c = Stomp.connect(broker)
      c:frame 'CONNECT'
      c:expect_error('this connection has sent CONNECT already', { code = 'denied' })
    end)

    it('in the vhost that host names', function()
      local name = fresh 'vhost'
      local c = Stomp.open(broker)
      c:frame('CONNECT', { ['accept-version'] = '1.2', host = name })
      c:expect_error(("there is no vhost '%s', only '/'; DECLARE vhost %s makes it"):format(name, name),
        { code = 'not-found' })
      broker:connect():ok('DECLARE vhost ' .. name)
      local a, b, other = Stomp.connect(broker, { host = name }), broker:connect(), Stomp.connect(broker)
      a:ask('SEND', { destination = '/queue/here' }, 'x')
      b:send(('HELLO vhost=%s\r\n'):format(name))
      b:expect_data()
      assert.equal('x', b:get('here ack=auto')[1].payload)
      other:frame('SEND', { destination = '/amq/queue/here' }, 'x')
      other:expect('ERROR', { code = 'unroutable' })
      a:close()
      b:close()
    end)

    it('in the default vhost when host is an address', function()
      local q = fresh()
      for i, host in ipairs { 'localhost', '127.0.0.1', '[::1]:61613', 'broker.example.org', '/' } do
        local c = Stomp.connect(broker, { host = host })
        c:ask('SEND', { destination = '/queue/' .. q }, tostring(i))
        c:close()
        assert.equal(i, queue(q).ready)
      end
    end)

    it('with a login that filters see, and a client-id that LIST connections shows', function()
      local c = Stomp.connect(broker, { login = 'ann', passcode = 'p:w', ['client-id'] = 'worker-7' })
      local found
      for _, connection in ipairs(admin:document 'LIST connections') do
        if connection.name == 'worker-7' then found = connection end
      end
      assert.equal('ann', found.user)
      assert.equal('stomp', found.protocol)
      assert.equal('1.2', found.version)
      c:close()
    end)
  end)

  describe('heart-beats', function()
    it('are agreed on, never faster than one a second', function()
      local c = Stomp.connect(broker, { ['heart-beat'] = '200,30000' })
      assert.equal('30000,1000', c.connected.headers['heart-beat'])
      c:close()
      c = Stomp.connect(broker, { ['heart-beat'] = '0,0' })
      assert.equal('0,0', c.connected.headers['heart-beat'])
      c:close()
    end)

    it('come while nothing else does, and a silent client is let go', function()
      local c = Stomp.connect(broker, { ['heart-beat'] = '1000,1000' })
      assert.equal('\n', c:take(function(input) return input:match '^\n()' and '\n', 2 end))
      c:expect_error('no input for two heartbeats', { code = 'busy' })
    end)

    it('of a client keep its connection', function()
      local c = Stomp.connect(broker, { ['heart-beat'] = '1000,0' })
      local deadline = wait.deadline(3.5)
      while wait.left(deadline) > 0 do
        c:send '\n'
        require 'socket'.sleep(0.2)
      end
      c:expect_nothing()
      c:close()
    end)

    it('must be two numbers', function()
      for _, value in ipairs { '1', '1,', ',1', 'a,b', '1,2,3', '-1,0' } do
        local c = Stomp.open(broker)
        c:frame('CONNECT', { ['accept-version'] = '1.1', ['heart-beat'] = value })
        c:expect('ERROR', { code = 'syntax' })
        c:close()
      end
    end)
  end)

  describe('SEND and SUBSCRIBE', function()
    local c
    before_each(function() c = Stomp.connect(broker) end)
    after_each(function() c:close() end)

    it('pass a message through a queue that the first of them makes', function()
      local q = fresh()
      c:subscribe('s 1', '/queue/' .. q)
      assert.is_true(queue(q).durable)
      c:frame('SEND', { destination = '/queue/' .. q, ['content-type'] = 'text/plain', ['x-a:b'] = 'c\n\\:\r' },
        'hello')
      local m = c:expect('MESSAGE', {
        subscription = 's 1', destination = '/queue/' .. q, redelivered = 'false', ['content-type'] = 'text/plain',
        ['content-length'] = '5', ['x-a:b'] = 'c\n\\:\r', ack = false,
      }, 'hello')
      assert.is_truthy(m.headers['message-id']:find '^%x+%-%d+%-1%-0$')
      assert.is_truthy(m.headers.timestamp:find '^%d+$')
    end)

    it('are not disturbed by an update of the queue', function()
      local q = fresh()
      c:subscribe('s', '/queue/' .. q)
      local other = broker:connect()
      other:ok('DECLARE queue ' .. q .. ' ack-timeout=5m update')
      other:close()
      c:frame('SEND', { destination = '/queue/' .. q }, 'hello')
      c:expect('MESSAGE', { subscription = 's' }, 'hello')
    end)

    it('keep what a receipt confirms when broker and Redis are killed', function()
      local own = Broker.start()
      local one = Stomp.connect(own)
      one:subscribe('sub', '/topic/facts.*', { durable = 'true' })
      one:ask('UNSUBSCRIBE', { id = 'sub' })
      one:ask('SEND', { destination = '/queue/kept', ['x-a'] = 'b' }, 'kept')
      one:ask('SEND', { destination = '/topic/facts.one' }, 'fact')
      one:ask('BEGIN', { transaction = 't' })
      one:frame('SEND', { destination = '/queue/kept', transaction = 't' }, 'committed')
      one:ask('COMMIT', { transaction = 't' })
      own:kill9_all()
      own:run()
      one = Stomp.connect(own)
      one:frame('SUBSCRIBE', { id = '1', destination = '/queue/kept' })
      one:expect('MESSAGE', { ['x-a'] = 'b' }, 'kept')
      one:expect('MESSAGE', nil, 'committed')
      one:frame('SUBSCRIBE', { id = 'sub', destination = '/topic/facts.*', durable = 'true' })
      one:expect('MESSAGE', { subscription = 'sub', destination = '/topic/facts.one' }, 'fact')
      one:close()
      own:expect_clean_stop()
    end)

    it('carry any bytes with content-length', function()
      local q, parts = fresh(), {}
      for i = 0, 255 do parts[#parts + 1] = string.char(i) end
      local body = table.concat(parts):rep(3)
      c:subscribe('1', '/queue/' .. q)
      c:frame('SEND', { destination = '/queue/' .. q, ['content-length'] = #body }, body)
      c:expect('MESSAGE', { ['content-length'] = tostring(#body) }, body)
    end)

    it('carry large bodies, with and without content-length', function()
      local q, body = fresh(), ('0123456789abcdef'):rep(40000)
      c:subscribe('1', '/queue/' .. q)
      c:frame('SEND', { destination = '/queue/' .. q, ['content-length'] = #body }, body)
      c:expect('MESSAGE', nil, body)
      c:frame('SEND', { destination = '/queue/' .. q }, body)
      c:expect('MESSAGE', nil, body)
      c:frame('SEND', { destination = '/queue/' .. q }, '')
      c:expect('MESSAGE', { ['content-length'] = '0' }, '')
    end)

    it('are taken in any split', function()
      local q = fresh()
      c:subscribe('1', '/queue/' .. q)

             local text = ('SEND\ndestination:/queue/%s\nx:\\c\ncontent-length:3\n\na\0b\0\r\n\n' ..
        'SEND\r\ndestination:/queue/%s\r\n\r\nxyz\0'):format(q, q)
      for cut = 1, #text - 1 do
        c:send(text:sub(1, cut))
        c:send(text:sub(cut + 1))
        c:expect('MESSAGE', { x = ':' }, 'a\0b')
        c:expect('MESSAGE', nil, 'xyz')
      end
    end)

    it('may arrive by the thousand in one write, with a receipt each', function()
      local q, parts = fresh(), {}
      for i = 1, 2000 do
        parts[i] = Stomp.format('SEND', { destination = '/queue/' .. q, receipt = i }, tostring(i))
      end
      c:send(table.concat(parts))
      for i = 1, 2000 do c:expect('RECEIPT', { ['receipt-id'] = tostring(i) }) end
      assert.equal(2000, queue(q).ready)
    end)

    it('have the options of a publish', function()
      local q = fresh()
      c:subscribe('1', '/queue/' .. q, { ack = 'client-individual', ['prefetch-count'] = 1 })
      c:ask('SEND', { destination = '/queue/' .. q, priority = 7, expiration = 60000, delay = '1h',
        persistent = 'true' }, 'a')
      local delayed = admin:peek(q .. ' state=delayed')[1]
      assert.equal(7, delayed.priority)
      assert.equal('true', delayed.headers.persistent)
      assert.is_true(delayed.expires > delayed.due)
      for _ = 1, 2 do c:ask('SEND', { destination = '/queue/' .. q, ['publish-id'] = 'same', delay = '1h' }, 'b') end
      assert.equal(2, queue(q).delayed)
    end)

    it('give the priority back, and a timestamp of the client', function()
      local q = fresh()
      c:subscribe('1', '/queue/' .. q)
      c:frame('SEND', { destination = '/queue/' .. q, priority = 4, timestamp = '17' })
      c:expect('MESSAGE', { priority = '4', timestamp = '17' })
    end)

    it('never give back headers that would hide the broker\'s', function()
      local q = fresh()
      c:subscribe('1', '/queue/' .. q)
      admin:ok('DECLARE queue ' .. q)
      admin:ok(('PUB - %s h:subscription=x h:message-id=y h:redelivered=z'):format(q), 'x')
      local m = c:expect('MESSAGE', { subscription = '1', redelivered = 'false' })
      assert.equal(6, #m.order, table.concat(m.order, ' '))
    end)

    it('drop what a consumer has copied from a MESSAGE', function()
      local q, dead, again = fresh(), fresh(), fresh()
      admin:ok('DECLARE queue ' .. dead)
      admin:ok(('DECLARE queue %s dead-letter=-/%s'):format(q, dead))
      c:subscribe('1', '/queue/' .. q, { ack = 'client' })
      c:subscribe('2', '/queue/' .. dead, { ack = 'client' })
      c:frame('SEND', { destination = '/queue/' .. q, ['x-mine'] = 'a' }, 'x')
      c:frame('NACK', { id = c:expect('MESSAGE', { subscription = '1' }).headers.ack, requeue = 'false' })
      c:frame('NACK', { id = c:expect('MESSAGE', { subscription = '2' }).headers.ack, delay = '0' })
      local m = c:expect('MESSAGE', { subscription = '2', ['x-attempt'] = '2', ['x-mine'] = 'a' })
      assert.is_string(m.headers['x-death-reason'])
      local copied = { ['x-partition'] = '1', ['x-offset'] = '2' }
      for name, value in pairs(m.headers) do copied[name] = value end
      copied.destination, copied['message-id'] = '/queue/' .. again, nil
      c:ask('SEND', copied, m.body)
      assert.same({ ['x-mine'] = 'a', timestamp = m.headers.timestamp }, admin:peek(again)[1].headers)
    end)

    it('refuse what cannot be', function()
      for headers, why in pairs {
        [{ destination = '/jobs' }] = 'syntax',
        [{}] = 'syntax', [{ destination = 'a', ['message-id'] = '1' }] = 'syntax',
        [{ destination = '/queue/a', priority = '256' }] = 'syntax',
        [{ destination = '/queue/a', delay = 'soon' }] = 'syntax',
        [{ destination = '/queue/a', expiration = '0' }] = 'syntax',
        [{ destination = '/queue/a', ['two words'] = 'x' }] = 'syntax',
        [{ destination = '/queue/a', transaction = 'none' }] = 'not-found',
        [{ destination = '/queue/a', receipt = ('r'):rep(1025) }] = 'too-long',
        [{ destination = '/exchange/none/k' }] = 'not-found',
        [{ destination = '/amq/queue/none' }] = 'unroutable',
        [{ destination = '/temp-queue/x' }] = 'denied',
        [{ destination = '/queue/a', ['content-length'] = 'x' }] = 'syntax',
        [{ destination = '/queue/a', ['content-length'] = '1048577' }] = 'too-large',
      } do
        local one = Stomp.connect(broker)
        headers.receipt = headers.receipt or 'it'
        one:frame('SEND', headers, 'x')
        local frame = one:expect('ERROR', { code = why })
        if #headers.receipt < 1000 then assert.equal('it', frame.headers['receipt-id']) end
        assert.equal('text/plain', frame.headers['content-type'])
        assert.equal(frame.headers.message == 'Invalid header' and headers['message-id']
          and "'message-id' is not allowed on 'SEND'.\n" or ('SEND: %s\n'):format(frame.headers.reason), frame.body)
        assert.is_nil(one:read())
        assert.is_true(one.is_closed)
      end
    end)

    it('tell of a refused publish after the receipts before it, and of none after', function()
      local q = fresh()
      admin:ok(('DECLARE queue %s max-length=1'):format(q))
      c:frame('SEND', { destination = '/queue/' .. q, receipt = 'a' }, '1')
      c:frame('SEND', { destination = '/queue/' .. q, receipt = 'b' }, '2')
      c:frame('SEND', { destination = '/queue/' .. q, receipt = 'c' }, '3')
      c:expect('RECEIPT', { ['receipt-id'] = 'a' })
      local frame = c:expect('ERROR', { code = 'full', ['receipt-id'] = 'b' })
      assert.is_truthy(frame.body:find '^SEND: ')
      assert.is_nil(c:read())
    end)
  end)

  describe('destinations', function()
    local c
    before_each(function() c = Stomp.connect(broker) end)
    after_each(function() c:close() end)

    it('/queue/ takes any name that is percent-encoded, and MESSAGE has it so', function()
      c:subscribe('1', '/queue/a%2Fb%25:c')
      c:frame('SEND', { destination = '/queue/a%2Fb%25:c' }, 'x')
      c:expect('MESSAGE', { destination = '/queue/a%2Fb%25:c' }, 'x')
      assert.is_table(queue 'a/b%:c')
    end)

    it('/queue/ may be left out', function()
      local q = fresh()
      c:subscribe('1', q)
      c:frame('SEND', { destination = q }, 'x')
      c:expect('MESSAGE', { destination = '/queue/' .. q }, 'x')
    end)

    it('/queue/ leaves a queue as it is, and makes it again when it is gone', function()
      local q = fresh()
      admin:ok(('DECLARE queue %s durable=0 retry=exponential'):format(q))
      c:ask('SEND', { destination = '/queue/' .. q }, 'x')
      assert.is_false(queue(q).durable)
      admin:ok('DELETE queue ' .. q)
      c:ask('SEND', { destination = '/queue/' .. q }, 'x')
      assert.is_true(queue(q).durable)
    end)

    it('/queue/ of a topic reads it by groups and positions', function()
      local t = fresh 'log'
      admin:ok(('DECLARE topic %s partitions=1'):format(t))
      for i = 1, 3 do c:ask('SEND', { destination = '/queue/' .. t }, tostring(i)) end
      c:subscribe('g', '/queue/' .. t, { group = 'g', from = 'first', ack = 'client' })
      local last
      for i = 1, 3 do
        last = c:expect('MESSAGE', { subscription = 'g', ['x-partition'] = '0', ['x-offset'] = tostring(i - 1) },
          tostring(i))
      end
      c:ask('ACK', { id = last.headers.ack })
      c:subscribe('r', '/queue/' .. t, { from = '1', partition = 0 })
      c:expect('MESSAGE', { subscription = 'r', ['x-offset'] = '1' }, '2')
      c:expect('MESSAGE', { subscription = 'r', ['x-offset'] = '2' }, '3')
      c:ask('UNSUBSCRIBE', { id = 'g' })
      c:subscribe('g2', '/queue/' .. t, { group = 'g', ack = 'client' })
      c:expect_nothing()
    end)

    it('x-queue-type:stream makes a topic', function()
      local t = fresh 'stream'
      c:subscribe('1', '/queue/' .. t, { ['x-queue-type'] = 'stream', ['x-stream-offset'] = 'first' })
      c:frame('SEND', { destination = '/queue/' .. t }, 'x')
      c:expect('MESSAGE', { ['x-offset'] = '0' }, 'x')
      assert.equal(t, admin:document('STATS topic ' .. t).topic or admin:document('STATS topic ' .. t).name)
    end)

    it('/amq/queue/ takes only what is there', function()
      local q = fresh()
      admin:ok(('DECLARE queue %s durable=0'):format(q))
      c:subscribe('1', '/amq/queue/' .. q)
      c:frame('SEND', { destination = '/amq/queue/' .. q }, 'x')
      c:expect('MESSAGE', { destination = '/queue/' .. q }, 'x')
      c:frame('SUBSCRIBE', { id = '2', destination = '/amq/queue/none' })
      c:expect_error("there is no queue 'none' in vhost '/'", { code = 'not-found' })
    end)

    it('/topic/ gives each subscription a queue of its own, by pattern', function()
      local other = Stomp.connect(broker)
      c:subscribe('1', '/topic/orders.*')
      c:subscribe('2', '/topic/#')
      other:subscribe('3', '/topic/orders.eu')
      other:ask('SEND', { destination = '/topic/orders.eu' }, 'x')
      other:expect('MESSAGE', { subscription = '3', destination = '/topic/orders.eu' }, 'x')
      local seen = {}
      for _ = 1, 2 do seen[c:expect('MESSAGE', { destination = '/topic/orders.eu' },
        'x').headers.subscription] = true end
      assert.same({ ['1'] = true, ['2'] = true }, seen)
      other:ask('SEND', { destination = '/topic/stock' }, 'y')
      c:expect('MESSAGE', { subscription = '2' }, 'y')
      c:ask('UNSUBSCRIBE', { id = '2' })
      other:ask('SEND', { destination = '/topic/stock' }, 'z')
      c:expect_nothing()
      other:close()
      c:ask('UNSUBSCRIBE', { id = '1' })
      expect_gone '^stomp%-%d+%-%d+%-%d+$'
    end)

    it('/topic/ with durable:true keeps messages for the next connection with that id', function()
      local id = fresh 'sub'
      c:subscribe(id, '/topic/durable.*', { durable = 'true' })
      c:close()
      local other = Stomp.connect(broker)
      other:ask('SEND', { destination = '/topic/durable.a' }, 'kept')
      c = Stomp.connect(broker)
      c:frame('SUBSCRIBE', { id = id, destination = '/topic/durable.*', durable = 'true' })
      c:expect('MESSAGE', { subscription = id }, 'kept')
      c:ask('UNSUBSCRIBE', { id = id, durable = 'true' })
      assert.is_nil(queue(('stomp-subscription-:%s:topic:durable.*'):format(id)))
      other:close()
    end)

    it('/topic/ with durable:true is another one for each client-id, id and destination', function()
      local names = {}
      for name, it in pairs {
        ['stomp-subscription-:sub-0:topic:orders'] = { nil, 'sub-0', '/topic/orders' },
        ['stomp-subscription-:sub-0:topic:mails'] = { nil, 'sub-0', '/topic/mails' },
        ['stomp-subscription-:a-sub:topic:orders'] = { nil, 'a-sub', '/topic/orders' },
        ['stomp-subscription-a:sub:topic:orders'] = { 'a', 'sub', '/topic/orders' },
        ['stomp-subscription-a-b:c:topic:orders'] = { 'a-b', 'c', '/topic/orders' },
        ['stomp-subscription-a:b-c:topic:orders'] = { 'a', 'b-c', '/topic/orders' },
        ['stomp-subscription-a%3Ab:c:topic:orders'] = { 'a:b', 'c', '/topic/orders' },
        ['stomp-subscription-a:b%3Ac:topic:orders'] = { 'a', 'b:c', '/topic/orders' },
        ['stomp-subscription-a:b%253Ac:topic:orders'] = { 'a', 'b%3Ac', '/topic/orders' },
        ['stomp-subscription-a:my%20sub:exchange:amq.fanout:'] = { 'a', 'my sub', '/exchange/amq.fanout' },
        ['stomp-subscription-a:s:exchange:amq.direct:a/b%3Ac'] = { 'a', 's', '/exchange/amq.direct/a%2Fb:c' },
        ['stomp-subscription-a:s:topic:x'] = { 'a', 's', '/exchange/amq.topic/x' },
      } do
        local one = Stomp.connect(broker, { ['client-id'] = it[1] })
        one:subscribe(it[2], it[3], { durable = 'true' })
        one:close()
        assert.is_table(queue(name), name)
        names[#names + 1] = name
      end
      c:ask('SEND', { destination = '/topic/orders' }, 'x')
      assert.equal(1, queue('stomp-subscription-:sub-0:topic:orders').ready)
      assert.equal(0, queue('stomp-subscription-:sub-0:topic:mails').ready)
      for _, name in ipairs(names) do admin:ok('DELETE queue ' .. name) end
    end)

    it('/topic/ names the queue of a durable subscription by x-queue-name', function()
      local id = fresh 'sub'
      local one = Stomp.connect(broker, { ['client-id'] = 'ann' })
      one:subscribe(id, '/topic/a', { durable = 'true' })
      one:subscribe(id .. 'b', '/topic/a', { durable = 'true', ['x-queue-name'] = 'my.' .. id })
      assert.is_true(queue('my.' .. id).durable)
      one:ask('UNSUBSCRIBE', { id = id, durable = 'true' })
      one:ask('UNSUBSCRIBE', { id = id .. 'b', durable = 'true' })
      one:close()
    end)

    it('/exchange/ publishes with a key, and subscribes with a pattern', function()
      local x = fresh 'x'
      admin:ok(('DECLARE exchange %s topic'):format(x))
      c:subscribe('1', ('/exchange/%s/a.*'):format(x))
      c:frame('SEND', { destination = ('/exchange/%s/a.b'):format(x) }, 'x')
      c:expect('MESSAGE', { destination = ('/exchange/%s/a.b'):format(x) }, 'x')
      admin:ok(('DECLARE exchange %s.all fanout'):format(x))
      c:subscribe('2', ('/exchange/%s.all'):format(x))
      c:frame('SEND', { destination = ('/exchange/%s.all'):format(x) }, 'y')
      c:expect('MESSAGE', { subscription = '2', destination = ('/exchange/%s.all'):format(x) }, 'y')
      c:frame('SUBSCRIBE', { id = '3', destination = '/exchange/none/a' })
      c:expect_error("there is no exchange 'none' in vhost '/'", { code = 'not-found' })
    end)

    it('/temp-queue/ in reply-to brings the answers back', function()
      local q, server = fresh(), Stomp.connect(broker)
      server:subscribe('1', '/queue/' .. q)
      for i = 1, 2 do
        c:frame('SEND', { destination = '/queue/' .. q, ['reply-to'] = '/temp-queue/answers' }, 'ask' .. i)
        local m = server:expect('MESSAGE', nil, 'ask' .. i)
        assert.is_truthy(m.headers['reply-to']:find '^/reply%-queue/stomp%-temp%-')
        server:frame('SEND', { destination = m.headers['reply-to'] }, 'answer' .. i)
        c:expect('MESSAGE', { subscription = '/temp-queue/answers' }, 'answer' .. i)
      end
      c:close()
      expect_gone '^stomp%-temp%-'
      server:close()
    end)

    it('/temp-queue/ may be subscribed to by its own connection', function()
      local q = fresh()
      c:subscribe('mine', '/temp-queue/t', { ack = 'client' })
      c:subscribe('1', '/queue/' .. q)
      c:frame('SEND', { destination = '/queue/' .. q, ['reply-to'] = '/temp-queue/t' }, 'x')
      local to = c:expect('MESSAGE', { subscription = '1' }).headers['reply-to']
      c:frame('SEND', { destination = to }, 'y')
      c:expect('MESSAGE', { subscription = 'mine' }, 'y')
    end)

    it('/reply-queue/ is the same queue for each SEND, whatever came between', function()
      local q, other = fresh(), fresh()
      for _, name in ipairs { q, other } do admin:ok('DECLARE queue ' .. name) end
      for i = 1, 3 do
        c:ask('SEND', { a = ('x'):rep(100 * i), destination = '/reply-queue/' .. q }, 'answer')
        admin:ok('PUB - ' .. other, ('y'):rep(500))
      end
      assert.equal(3, admin:stats(q).ready)
      assert.equal(3, admin:stats(other).ready)
    end)

    it('/reply-queue/ is for SEND alone', function()
      c:frame('SUBSCRIBE', { id = '1', destination = '/reply-queue/x' })
      c:expect('ERROR', { code = 'denied' })
    end)

    it('take the options of a queue from the headers of SUBSCRIBE', function()
      local q = fresh()
      c:subscribe('1', '/queue/' .. q, {
        durable = 'false', ['auto-delete'] = 'true', ['x-message-ttl'] = 60000, ['x-max-length'] = 10,
          ['x-expires'] = 3600000,
        ['x-dead-letter-exchange'] = '', ['x-dead-letter-routing-key'] = 'dead', ['x-retry'] = 'exponential',
        ['x-retry.base'] = '5s', ['x-single-active-consumer'] = 'true', ['x-max-priority'] = 10,
          ['x-queue-mode'] = 'lazy',
        ['x-priority'] = 5,
      })
      assert.same({
        durable = '0', ['auto-delete'] = '1', ttl = '60000', ['max-length'] = '10', overflow = 'drop-head',
          expires = '3600000',
        ['dead-letter'] = '-/dead', retry = 'exponential', ['retry.base'] = '5s', ['single-active'] = '1',
          priority = 'strict',
      }, queue(q).options)
    end)

    it('take the options of a queue from the headers of SEND too', function()
      local q = fresh()
      local options = {
        ['x-message-ttl'] = 60000, ['x-expires'] = 70000, ['x-max-length'] = 10, ['x-max-length-bytes'] = 20000,
        ['x-dead-letter-exchange'] = 'dlx', ['x-dead-letter-routing-key'] = 'dead', ['x-max-priority'] = 6,
        ['x-queue-type'] = 'quorum', ['x-single-active-consumer'] = 'False', ['auto-delete'] = 'FALSE',
      }
      local headers = { destination = '/queue/' .. q, ['x-priority'] = '5', ['x-retry'] = 'mine', ['x-mine'] = 'a' }
      for name, value in pairs(options) do headers[name] = value end
      c:ask('SEND', headers, 'x')
      assert.same({
        ttl = '60000', expires = '70000', ['max-length'] = '10', ['max-bytes'] = '20000', overflow = 'drop-head',
        ['dead-letter'] = 'dlx/dead', priority = 'strict',
      }, queue(q).options)
      assert.same({ ['x-priority'] = '5', ['x-retry'] = 'mine', ['x-mine'] = 'a' }, admin:peek(q)[1].headers)
      options.receipt = 'r'
      c:subscribe('1', '/queue/' .. q, options)
      c:expect('MESSAGE', { ['x-retry'] = 'mine' }, 'x')
      -- To an exchange they are the message's.
      c:subscribe('2', '/topic/options')
      c:frame('SEND', { destination = '/topic/options', ['x-message-ttl'] = '5' })
      c:expect('MESSAGE', { subscription = '2', ['x-message-ttl'] = '5' })
      local other = fresh()
      c:ask('SEND', { destination = '/queue/' .. other, durable = 'false' })
      assert.is_false(queue(other).durable)
      c:close()
      c = Stomp.connect(broker)
      c:frame('SEND', { destination = '/queue/' .. other, ['x-message-ttl'] = '7' })
      c:expect('ERROR', { code = 'mismatch', message = 'precondition_failed' })
    end)

    it('take True and False of any language, persistent for durable, and a prefetch of no limit', function()
      local id, q = fresh 'sub', fresh()
      c:subscribe(id, '/topic/flags', { persistent = 'True', ['auto-delete'] = 'False' })
      assert.is_true(queue(('stomp-subscription-:%s:topic:flags'):format(id)).durable)
      c:ask('UNSUBSCRIBE', { id = id, persistent = 'TRUE' })
      assert.is_nil(queue(('stomp-subscription-:%s:topic:flags'):format(id)))
      for i = 1, 1100 do c:frame('SEND', { destination = '/queue/' .. q }, tostring(i)) end
      c:frame('SUBSCRIBE', { id = '1', destination = '/queue/' .. q, ack = 'client', ['prefetch-count'] = '0' })
      local last
      for i = 1, 1100 do last = c:expect('MESSAGE', nil, tostring(i)).headers.ack end
      c:ask('NACK', { id = last, requeue = 'False' })
    end)

    it('refuse options that the queue does not have', function()
      local q = fresh()
      admin:ok(('DECLARE queue %s'):format(q))
      c:frame('SUBSCRIBE', { id = '1', destination = '/queue/' .. q, ['x-message-ttl'] = 5 })
      c:expect('ERROR', { code = 'mismatch' })
    end)
  end)
end)
