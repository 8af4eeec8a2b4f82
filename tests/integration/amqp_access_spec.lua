-- AMQP and everything that it shares with the other protocols: users, permissions, TLS, rules,
-- limits, and the end of the broker.
local Amqp = require 'support.amqp'
local Broker = require 'support.broker'
local Certs = require 'support.certs'
local Stomp = require 'support.stomp'
local users = require 'support.users'
local wait = require 'support.wait'

describe('AMQP', function()
  local tls = Certs.fixture()
  local broker

  after_each(function()
    if broker then broker:destroy() end
    broker = nil
  end)

  local function connect(login)
    local c = Amqp.connect(broker, login)
    c:open_channel(1)
    return c
  end

  describe('of users', function()
    before_each(function()
      broker = users.start {
        admin = { tags = { 'admin' }, vhosts = { ['/'] = { configure = '.*', write = '.*', read = '.*' } } },
        bob = { vhosts = { ['/'] = { configure = '^own', write = '^own', read = '^(own|others)' }, shop = {} } },
      }
    end)

    it('asks for the password, and for the vhost', function()
      for _, case in ipairs {
        { { user = 'bob', password = 'wrong' }, 'the user or the password is wrong' },
        { { user = 'nobody', password = 'x' }, 'the user or the password is wrong' },
        { { mechanism = 'EXTERNAL' }, 'EXTERNAL' },
      } do
        local c = Amqp.open(broker)
        local _, err = pcall(c.begin, c, case[1])
        assert.matches('expected connection.tune .- got connection.close .- ACCESS_REFUSED %- .*' .. case[2], err)
      end
      local c = Amqp.open(broker)
      c:begin { user = 'bob', password = users.password, vhost = 'other' }
      c:expect_end(530, "user 'bob' may not enter vhost 'other'")
      c = connect { user = 'bob', password = users.password, vhost = 'shop' }
      c:leave()
    end)

    it('checks what a user may do, and ends what he may no longer', function()
      local admin = users.connect(broker, 'admin')
      for _, name in ipairs { 'own', 'others' } do admin:ok('DECLARE queue ' .. name) end
      local c = connect { user = 'bob', password = users.password }
      c:ask(1, 'queue.declare', { queue = 'own.q' })
      c:expect_refusal(1, 'queue.declare', { queue = 'mine' }, 403, 'configure')
      c:expect_refusal(1, 'queue.delete', { queue = 'others' }, 403, 'configure')
      c:expect_refusal(1, 'queue.bind', { queue = 'own', exchange = 'amq.topic' }, 403, 'read')
      c:expect_refusal(1, 'exchange.declare', { exchange = 'x', type = 'topic' }, 403, 'configure')
      c:expect_refusal(1, 'basic.get', { queue = 'mine' }, 403, 'may not read')
      c:expect_refusal(1, 'basic.consume', { queue = 'mine' }, 403, 'may not read')
      c:publish(1, '', 'others', 'x')
      c:expect_refusal(1, nil, nil, 403, 'write')
      c:publish(1, '', 'own', 'x', Amqp.properties { { 'headers', Amqp.table { { 'CC', 'A', 'S\0\0\0\6others' } } } })
      c:expect_refusal(1, nil, nil, 403, 'others')
      c:publish(1, '', 'own', 'x', Amqp.properties { { 'user-id', 'admin' } })
      c:expect_refusal(1, nil, nil, 406, 'user-id')
      c:publish(1, '', 'own', 'x', Amqp.properties { { 'user-id', 'bob' } })
      c:ask(1, 'basic.consume', { queue = 'own', consumer_tag = 't' })
      c:expect_message(1, 'basic.deliver')
      admin:ok 'USER grant bob / configure=^own write=^own read=^others'
      c:expect_method(1, 'basic.cancel', { consumer_tag = 't' })
      admin:ok 'USER delete bob'
      c:expect_end(320, "user 'bob' was deleted")
    end)
  end)

  it('takes a certificate in place of a password', function()
    tls.certs:issue 'alice'
    broker = tls.start { redis = {}, stopped = true,
      args = { '--tls-ca', tls.certs:cert 'ca', '--tls-client', 'wanted', '--tls-user' } }
    users.restore(broker.redis, { alice = { vhosts = { ['/'] = { configure = '.*', write = '.*', read = '.*' } } } })
    broker:run()
    local c = setmetatable(broker:connect(1, { cafile = tls.certs:cert 'ca', certificate = tls.certs:cert 'alice',
      key = tls.certs:key 'alice' }), Amqp)
    c:begin { mechanism = 'EXTERNAL', response = '' }
    assert.equal('EXTERNAL PLAIN AMQPLAIN', c.start.mechanisms)
    c:expect_method(0, 'connection.open-ok')
    c:open_channel(1)
    c:ask(1, 'queue.declare', { queue = 'q' })
    c:leave()
  end)

  it('meets rules by name, and other protocols', function()
    broker = Broker.start { rules = {
      ['connect/10-x.lua'] = [[return { match = {}, connect = function(client)
        if client.user == "no" then return false, "not by " .. client.protocol end end }]],
      ['filter/10-x.lua'] = [[return { match = { exchange = "-" }, publish = function(msg)
        if msg.headers.kind == "bad" then return tide.reject("no bad ones") end
        for name in pairs(msg.headers) do if name:find "amqp" then error "it is seen" end end
        if msg.headers.kind == "moved" then msg.key = "elsewhere" return end
        msg.headers.seen = msg.headers["content-type"] .. msg.headers.n
        msg.headers.n = "8"
      end }]],
    } }
    local refused = Amqp.open(broker)
    refused:begin { user = 'no' }
    refused:expect_end(530, 'not by amqp')
    local told = broker:connect():document 'RULES simulate login user=no protocol=amqp'
    assert.equal('refuse', told.connect.verdict)
    local c = connect()
    c:ask(1, 'queue.declare', { queue = 'q', durable = true })
    c:ask(1, 'confirm.select')
    local function properties(kind)
      return Amqp.properties { { 'content-type', 'a/b' }, { 'headers', Amqp.table {
        { 'kind', 'S', kind }, { 'n', 'I', 7 }, { 'list', 'A', 'V' } } } }
    end
    c:publish(1, '', 'q', 'refused', properties 'bad')
    c:expect_method(1, 'basic.nack', { delivery_tag = 1 })
    for _ = 1, 2 do c:publish(1, '', 'q', 'taken', properties 'good') end
    c:send(Amqp.method(1, 'basic.get', { queue = 'q', no_ack = true }))
    local m
    repeat
      local frame = c:read()
      if frame.values.name == 'basic.get-ok' then
        c.input = Amqp.frame(1, 1, frame.payload) .. c.input
        m = c:expect_message(1, 'basic.get-ok')
      end
    until m
    assert.equal(Amqp.properties { { 'content-type', 'a/b' }, { 'headers', Amqp.table {
      { 'kind', 'S', 'good' }, { 'n', 'S', '8' }, { 'list', 'A', 'V' }, { 'seen', 'S', 'a/b7' } } } }, m.properties)
    -- Where a filter sends a message is the only place where it goes.
    local other = connect()
    other:ask(1, 'confirm.select')
    for _, name in ipairs { 'copy', 'elsewhere' } do other:ask(1, 'queue.declare', { queue = name }) end
    for _, kind in ipairs { 'stays', 'moved' } do
      local key = kind == 'moved' and 'absent' or 'elsewhere'
      other:publish(1, '', key, kind, Amqp.properties { { 'content-type', 'a/b' }, { 'headers', Amqp.table {
        { 'kind', 'S', kind }, { 'n', 'I', 7 }, { 'CC', 'A', 'S\0\0\0\4copy' } } } })
      other:expect_method(1, 'basic.ack')
      local counts = {}
      for i, name in ipairs { 'copy', 'elsewhere' } do
        counts[i] = other:ask(1, 'queue.declare', { queue = name, passive = true }).message_count
      end
      assert.same(kind == 'stays' and { 1, 1 } or { 1, 2 }, counts)
    end
    other:close()
    local stomp = Stomp.connect(broker)
    stomp:subscribe('1', '/queue/q')
    local frame = stomp:expect('MESSAGE', { ['content-type'] = 'a/b', seen = 'a/b7' }, 'taken')
    assert.is_nil(table.concat(frame.order, '\n'):find 'amqp')
    stomp:close()
    c:close()
  end)

  it('tells that publishers are held back, and lets them go on', function()
    broker = Broker.start { args = { '--store', 'none', '--max-memory', '1M' } }
    local c, judge = connect(), broker:connect()
    judge:ok 'DECLARE queue q durable=0'
    c:send(Amqp.publish_frames(1, '', 'q', ('x'):rep(20000)):rep(100))
    local why = c:expect_method(0, 'connection.blocked').reason
    assert.matches('memory', why)
    judge:ok 'PURGE q'
    c:expect_method(0, 'connection.unblocked')
    local late = connect()
    assert.is_true(wait.poll(function()
      judge:ok 'PURGE q'
      return late:ask(1, 'queue.declare', { queue = 'q', passive = true }).message_count >= 0
    end))
    c:close()
  end)

  it('counts its connections, and can be killed', function()
    broker = Broker.start {}
    local c, admin = connect(), broker:connect()
    c:ask(1, 'queue.declare', { queue = 'q' })
    c:ask(1, 'basic.consume', { queue = 'q', consumer_tag = 'worker' })
    assert.equal(1, admin:document 'STATS'.net.open.amqp)
    local row = admin:document 'LIST consumers'[1]
    assert.same({ 'worker', 1, 65535 }, { row.sid, row.channel, row.prefetch })
    admin:ok(('KILL connection %d'):format(row.connection))
    c:expect_end(320, '')
  end)

  it('ends in order with the broker, and what it held comes back after a kill -9', function()
    broker = Broker.start { args = { '--fsync', 'always' } }
    local c = connect()
    c:ask(1, 'queue.declare', { queue = 'q', durable = true })
    c:ask(1, 'confirm.select')
    local bytes = Amqp.properties { { 'headers', Amqp.table { { 'f', 'F', Amqp.table { { 'n', 'I', 1 } } } } } }
    for i = 1, 3 do
      c:publish(1, '', 'q', 'm' .. i, bytes)
      c:expect_method(1, 'basic.ack')
    end
    c:ask(1, 'basic.consume', { queue = 'q', consumer_tag = 't' })
    for _ = 1, 3 do c:expect_message(1, 'basic.deliver') end
    broker:kill9_all()
    broker:run()
    c = connect()
    c:ask(1, 'basic.consume', { queue = 'q', consumer_tag = 't' })
    for i = 1, 3 do
      local m = c:expect_message(1, 'basic.deliver', { delivery_tag = i })
      assert.same({ 'm' .. i, bytes }, { m.body, m.properties })
    end
    c:send(Amqp.method(1, 'basic.ack', { delivery_tag = 3, multiple = true }))
    c:ask(1, 'basic.qos')
    broker:signal 'TERM'
    c:expect_end(320, 'the broker is stopping')
  end)
end)
