-- AMQP 0-9-1 over sockets: connections, channels, definitions, messages.
local Amqp = require 'support.amqp'
local Broker = require 'support.broker'
local traffic = require 'support.traffic'
local wait = require 'support.wait'

describe('AMQP', function()
  local broker, admin, count = nil, nil, 0

  setup(function()
    broker = Broker.start { args = { '--fsync', 'no', '--max-payload', '1M' } }
    admin = broker:connect()
  end)
  teardown(function()
    if admin then admin:close() end
    if broker then broker:expect_clean_stop() end
  end)

  local function fresh()
    count = count + 1
    return 'q' .. count
  end

  --- A connection with channel 1, and perhaps a queue.
  local function connect(queue, fields)
    local c = Amqp.connect(broker)
    c:open_channel(1)
    if queue then
      local all = { queue = queue }
      for name, value in pairs(fields or {}) do all[name] = value end
      c:ask(1, 'queue.declare', all)
    end
    return c
  end

  local function confirmed(c, ...)
    c:publish(1, ...)
    return c:expect_method(1, 'basic.ack')
  end

  local function get(c, queue, fields)
    c:send(Amqp.method(1, 'basic.get', { queue = queue, no_ack = true }))
    return c:expect_message(1, 'basic.get-ok', fields)
  end

  local function expect_empty(c, queue)
    c:send(Amqp.method(1, 'basic.get', { queue = queue, no_ack = true }))
    c:expect_method(1, 'basic.get-empty')
  end

  describe('begins', function()
    it('with its header, whatever its split, and another one is answered with it', function()
      for cut = 1, 7 do
        local c = Amqp.open(broker)
        c:send(Amqp.HEADER:sub(1, cut))
        c:send(Amqp.HEADER:sub(cut + 1))
        local start = c:expect_method(0, 'connection.start', { version_major = 0, version_minor = 9 })
        assert.equal('PLAIN AMQPLAIN', start.mechanisms)
        assert.truthy(start.server_properties:find('tidemq', 1, true))
        assert.truthy(start.server_properties:find('publisher_confirms', 1, true))
        c:close()
      end
      local c = Amqp.open(broker)
      c:send 'AMQP\0\1\0\0'
      wait.poll(function() return c:read(0.1) == nil and c.is_closed end)
      assert.equal(Amqp.HEADER, c.input)
    end)

    it('with PLAIN or AMQPLAIN, and tunes frames, channels and heartbeats', function()
      local c = Amqp.connect(broker, { mechanism = 'AMQPLAIN',
        response = Amqp.table { { 'LOGIN', 'S', 'guest' }, { 'PASSWORD', 'S', 'guest' } } })
      assert.same({ 256, 131072, 60 }, { c.tune.channel_max, c.tune.frame_max, c.tune.heartbeat })
      local row
      for _, one in ipairs(admin:document 'LIST connections') do row = one.protocol == 'amqp' and one or row end
      assert.same({ 'amqp', '0-9-1', 'a-test' }, { row.protocol, row.version, row.name })
      c:leave()
      for _, bad in ipairs { { mechanism = 'NONE' }, { response = 'x' }, { mechanism = 'EXTERNAL' } } do
        c = Amqp.open(broker)
        assert.has_error(function() c:begin(bad) end)
        c:close()
      end
      c = Amqp.open(broker)
      c:begin { vhost = 'elsewhere' }
      c:expect_end(530, 'elsewhere')
      c = Amqp.open(broker)
      c:begin { frame_max = 100 }
      c:expect_end(530, 'frame_max')
    end)

    it('in the default vhost when the name is empty, as in amqp://host/', function()
      local c = Amqp.open(broker)
      c:begin { vhost = '' }
      c:send(Amqp.method(0, 'connection.open', {}))
      c:expect_method(0, 'connection.open-ok')
      c:expect_end(503, 'not expected')
    end)

    it('may renew its secret, though a login has no end', function()
      local c = connect()
      c:ask(0, 'connection.update-secret', { new_secret = 'another', reason = 'the old one ends' })
      c:ask(1, 'confirm.select')
      c:leave()
      c = Amqp.open(broker)
      c:send(Amqp.HEADER)
      c:expect_method(0, 'connection.start')
      c:send(Amqp.method(0, 'connection.update-secret', {}))
      c:expect_end(503, 'not expected')
    end)

    it('sends heartbeats, and ends when it hears none', function()
      local c = Amqp.connect(broker, { heartbeat = 1 })
      local frame = c:take(function(input) return #input >= 8 and input:sub(1, 8) or nil, 9 end)
      assert.equal('\8\0\0\0\0\0\0\xce', frame)
      for _ = 1, 3 do c:send '\8\0\0\0\0\0\0\xce' end
      c:expect_end(320, 'heartbeat')
    end)
  end)

  describe('frames', function()
    it('may be split at each byte', function()
      local queue = fresh()
      local c = connect(queue)
      c:ask(1, 'confirm.select')
      local bytes = Amqp.properties { { 'type', 't' }, { 'headers', Amqp.table { { 'a', 'I', 1 } } } }
      local text = Amqp.publish_frames(1, '', queue, 'hello', bytes)
      for cut = 1, #text - 1 do
        c:send(text:sub(1, cut))
        -- The answer to another request says that the first part was read.
        admin:send 'PING\r\n'
        admin:expect '^OK'
        c:send(text:sub(cut + 1))
        c:expect_method(1, 'basic.ack')
        local m = get(c, queue)
        assert.same({ 'hello', bytes }, { m.body, m.properties })
      end
      c:leave()
    end)

    it('that are none end the connection with a code that says why', function()
      local method, frame = Amqp.method, Amqp.frame
      local declare = method(1, 'queue.declare', { queue = 'x' })
      local publish = method(1, 'basic.publish', { routing_key = 'x' })
      local function head(len, bytes) return frame(2, 1, ('>I2I2I8'):pack(60, 0, len) .. (bytes or '\0\0')) end
      for _, case in ipairs {
        { declare:sub(1, -2) .. 'x', 501, '0xCE' }, { '\4\0\1\0\0\0\0\xce', 501, 'type' },
        { ('>BI2I4'):pack(1, 1, 200000), 501, 'frame_max' }, { '\8\0\1\0\0\0\0\xce', 505, 'heartbeat' },
        { frame(1, 1, 'ab'), 501, 'class' }, { frame(1, 1, '\0\60\1\1'), 540, 'no method' },
        { frame(1, 1, '\0\50\0\10\0'), 502, 'queue.declare' },
        { frame(1, 1, declare:sub(8, -2) .. 'x'), 502, 'queue.declare' },
        { method(1, 'queue.declare', { queue = 'x', arguments = '\1aZ' }), 502, 'queue.declare' },
        { method(0, 'queue.declare', {}), 503, 'channel 0' }, { method(1, 'connection.open', {}), 503, 'channel 1' },
        { method(7, 'queue.declare', {}), 504, 'not open' }, { method(1, 'channel.open', {}), 504, 'open already' },
        { method(999, 'channel.open', {}), 530, '256' }, { method(1, 'queue.declare-ok', {}), 503, 'not expected' },
        { method(1, 'basic.deliver', {}), 503, 'not expected' }, { method(1, 'tx.select-ok', {}), 503, 'not expected' },
        { head(1), 505, 'header' }, { frame(3, 1, 'x'), 505, 'body' }, { publish .. publish, 505, 'content' },
        { publish .. frame(2, 1, 'x'), 501, 'header' }, { publish .. head(1, '\128\0\9x'), 502, 'properties' },
        { publish .. head(1, '\0\1'), 502, 'properties' }, { publish .. head(3) .. frame(3, 1, 'abcd'), 501, 'longer' },
        { publish .. head(3) .. frame(3, 1, 'abc'):sub(1, -2) .. 'x', 501, '0xCE' },
        { method(1, 'basic.publish', { immediate = true }), 540, 'immediate' },
        { method(1, 'channel.flow', {}), 540, 'active' },
        { method(1, 'basic.qos', { prefetch_size = 1 }), 540, 'prefetch' },
        { method(1, 'basic.recover', {}), 540, 'requeue' },
        { method(1, 'exchange.declare', { exchange = 'x', type = 'x-odd' }), 540, 'x-odd' },
        { method(1, 'queue.declare', { queue = 's', durable = true,
          arguments = Amqp.table { { 'x-queue-type', 'S', 'stream' } } }), 540, 'stream' },
      } do
        local c = connect()
        c:send(case[1])
        c:expect_end(case[2], (case[3]:gsub('%%', '')))
      end
    end)

    it('of several channels may take turns, and one closed in between drops its message alone', function()
      local queue = fresh()
      local c = connect(queue)
      c:open_channel(2)
      for channel = 1, 2 do c:ask(channel, 'confirm.select') end
      local function header(channel) return Amqp.frame(2, channel, ('>I2I2I8'):pack(60, 0, 6) .. '\0\0') end
      for channel = 1, 2 do c:send(Amqp.method(channel, 'basic.publish', { routing_key = queue })) end
      c:send(header(2) .. header(1) .. Amqp.frame(3, 1, 'abc') .. Amqp.frame(3, 2, 'uvw') .. Amqp.frame(3, 1, ''))
      c:send(Amqp.frame(3, 2, 'xyz'))
      c:expect_method(2, 'basic.ack')
      c:send(Amqp.frame(3, 1, 'def'))
      c:expect_method(1, 'basic.ack')
      assert.same({ 'uvwxyz', 'abcdef' }, { get(c, queue).body, get(c, queue).body })
      -- The message is on its way when its channel is closed for something else.
      c:send(Amqp.method(2, 'basic.publish', { routing_key = queue }) .. header(2) .. Amqp.frame(3, 2, 'abc'))
      c:send(Amqp.method(1, 'queue.declare', { queue = 'absent', passive = true }))
      c:expect_method(1, 'channel.close', { reply_code = 404 })
      c:publish(1, '', queue, 'late')
      c:send(Amqp.method(1, 'channel.close-ok'))
      c:send(Amqp.frame(3, 2, 'def'))
      c:expect_method(2, 'basic.ack')
      c:open_channel(1)
      assert.equal('abcdef', get(c, queue).body)
      expect_empty(c, queue)
      c:leave()
    end)

    it('longer than the buffer of a connection are read, and bodies are cut at frame_max', function()
      local queue = fresh()
      local c = Amqp.connect(broker, { frame_max = 4096 })
      c:open_channel(1)
      c:ask(1, 'queue.declare', { queue = queue })
      c:ask(1, 'confirm.select')
      c:send(Amqp.method(1, 'basic.publish', { routing_key = queue }) ..
        Amqp.frame(2, 1, ('>I2I2I8'):pack(60, 0, 10000) .. '\0\0'))
      for _ = 1, 10 do c:send(Amqp.frame(3, 1, ('x'):rep(1000))) end
      c:expect_method(1, 'basic.ack')
      local m = get(c, queue)
      assert.same({ 10000, 3 }, { #m.body, m.frames })
      c:leave()
      c = connect(queue)
      c:ask(1, 'confirm.select')
      local bytes = Amqp.properties { { 'headers', Amqp.table { { 'a', 'S', ('y'):rep(100000) } } } }
      confirmed(c, '', queue, '', bytes)
      assert.equal(bytes, get(c, queue).properties)
      c:leave()
    end)
  end)

  describe('definitions', function()
    it('are declared, checked and deleted, and what differs is refused', function()
      local queue = fresh()
      local c = connect(queue, { durable = true })
      assert.same({ queue, 0, 0 }, (function()
        local ok = c:ask(1, 'queue.declare', { queue = queue, passive = true })
        return { ok.queue, ok.message_count, ok.consumer_count }
      end)())
      c:expect_refusal(1, 'queue.declare', { queue = queue }, 406, 'durable')
      c:expect_refusal(1, 'queue.declare', { queue = 'absent', passive = true }, 404, "'absent'")
      c:expect_refusal(1, 'queue.declare', { queue = 'amq.mine' }, 403, 'amq.')
      c:expect_refusal(1, 'queue.declare', { queue = 'a b' }, 406, 'white space')
      c:expect_refusal(1, 'exchange.declare', { exchange = 'absent', type = 'direct', passive = true }, 404, 'absent')
      c:expect_refusal(1, 'exchange.declare', { exchange = '', type = 'direct' }, 403, 'default exchange')
      c:expect_refusal(1, 'exchange.delete', { exchange = 'amq.topic' }, 403, 'amq.topic')
      c:expect_refusal(1, 'queue.bind', { queue = queue, exchange = '' }, 403, 'default exchange')
      c:expect_refusal(1, 'basic.publish', { exchange = 'a b' }, 406, 'white space')
      c:expect_refusal(1, 'queue.purge', {}, 404, 'before')
      for _, name in ipairs { 'direct', 'fanout', 'topic', 'headers' } do
        c:ask(1, 'exchange.declare', { exchange = 'amq.' .. name, type = name, durable = true })
      end
      c:ask(1, 'exchange.declare', { exchange = 'x.' .. queue, type = 'direct' })
      c:expect_refusal(1, 'exchange.declare', { exchange = 'x.' .. queue, type = 'topic' }, 406)
      c:ask(1, 'queue.bind', { queue = queue, exchange = 'x.' .. queue, routing_key = 'k' })
      c:expect_refusal(1, 'exchange.delete', { exchange = 'x.' .. queue, if_unused = true }, 406, 'in use')
      c:ask(1, 'queue.unbind', { queue = queue, exchange = 'x.' .. queue, routing_key = 'k' })
      c:ask(1, 'queue.unbind', { queue = queue, exchange = 'x.' .. queue, routing_key = 'k' })
      c:ask(1, 'exchange.delete', { exchange = 'x.' .. queue, if_unused = true })
      c:publish(1, '', queue, 'm')
      c:expect_refusal(1, 'queue.delete', { queue = queue, if_empty = true }, 406, 'not empty')
      assert.equal(1, c:ask(1, 'queue.purge', { queue = queue }).message_count)
      c:publish(1, '', queue, 'm')
      assert.equal(1, c:ask(1, 'queue.delete', { queue = queue }).message_count)
      assert.equal(0, c:ask(1, 'queue.delete', { queue = queue }).message_count)
      c:leave()
    end)

    it('have the options that their arguments are, and those that AMQP has no words for stay', function()
      local queue = fresh()
      local c = connect(queue, { durable = true, arguments = Amqp.table {
        { 'x-message-ttl', 'I', 60000 }, { 'x-expires', 'l', 3600000 }, { 'x-max-length', 'I', 10 },
        { 'x-max-length-bytes', 'I', 1000 }, { 'x-dead-letter-exchange', 'S', '' },
        { 'x-dead-letter-routing-key', 'S', 'dead' }, { 'x-max-priority', 'B', 10 },
        { 'x-queue-type', 'S', 'classic' }, { 'x-single-active-consumer', 't', 1 },
        { 'x-delivery-limit', 'I', 3 }, { 'x-queue-mode', 'S', 'lazy' },
      } })
      local function options(name)
        for _, q in ipairs(admin:document 'LIST queues') do if q.name == name then return q.options end end
      end
      assert.same({
        ttl = '60000ms', expires = '3600000ms', ['max-length'] = '10', ['max-bytes'] = '1000',
        ['dead-letter'] = '-/dead', overflow = 'dead-letter', priority = 'strict',
        ['single-active'] = '1', ['delivery-limit'] = '3',
      }, options(queue))
      c:expect_refusal(1, 'queue.declare', { queue = queue, durable = true }, 406)
      c:ask(1, 'queue.declare', { queue = queue, durable = true, arguments = Amqp.table {
        { 'x-message-ttl', 'I', 5000 }, { 'x-update', 't', 1 } } })
      assert.equal('5000ms', options(queue).ttl)
      for _, bad in ipairs { { 'x-nonsense', 'I', 1 }, { 'x-max-length', 'S', 'no' } } do
        c:expect_refusal(1, 'queue.declare', { queue = fresh(), arguments = Amqp.table { bad } }, 406, bad[1]:sub(3))
      end
      local other = fresh()
      admin:send(('DECLARE queue %s shards=4 retry=fixed\r\n'):format(other))
      admin:expect '^OK'
      c:ask(1, 'queue.declare', { queue = other, durable = true })
      c:ask(1, 'queue.declare', { queue = fresh(), arguments = Amqp.table { { 'x-shards', 'I', 2 } } })
      c:ask(1, 'exchange.declare', { exchange = 'alt.' .. queue, type = 'fanout', auto_delete = true,
        arguments = Amqp.table { { 'alternate-exchange', 'S', 'amq.fanout' } } })
      c:leave()
    end)

    it('of the server get a name, an exclusive queue is locked, and goes with its connection', function()
      local c, other = connect(), connect()
      local name = c:ask(1, 'queue.declare', { exclusive = true }).queue
      assert.truthy(name:find '^amq%.gen%-')
      other:expect_refusal(1, 'queue.declare', { queue = name, passive = true }, 405, 'another connection')
      other:expect_refusal(1, 'queue.declare', { queue = name }, 405, 'another connection')
      other:expect_refusal(1, 'basic.consume', { queue = name }, 405, 'another connection')
      -- An empty name is that of the last one.
      c:ask(1, 'queue.bind', { exchange = 'amq.direct', routing_key = name })
      c:publish(1, 'amq.direct', name, 'x')
      assert.equal('x', get(c, '').body)
      c:leave()
      assert.is_true(wait.poll(function()
        other:send(Amqp.method(1, 'queue.declare', { queue = name, passive = true }))
        local frame = other:read()
        if frame.values.name ~= 'channel.close' then return false end
        other:send(Amqp.method(1, 'channel.close-ok'))
        other:open_channel(1)
        return frame.values.reply_code == 404
      end))
      other:leave()
    end)

    it('bind queues by headers, and exchanges to exchanges', function()
      local queue = fresh()
      local c = connect(queue)
      c:ask(1, 'exchange.declare', { exchange = 'h.' .. queue, type = 'headers' })
      c:ask(1, 'exchange.declare', { exchange = 'f.' .. queue, type = 'fanout' })
      c:ask(1, 'exchange.bind', { destination = 'h.' .. queue, source = 'f.' .. queue })
      c:ask(1, 'queue.bind', { queue = queue, exchange = 'h.' .. queue, arguments = Amqp.table {
        { 'x-match', 'S', 'all' }, { 'n', 'I', 7 }, { 'there', 'V' } } })
      local function headers(n)
        return Amqp.properties { { 'headers', Amqp.table { { 'n', 'l', n }, { 'there', 'S', '' } } } }
      end
      c:publish(1, 'f.' .. queue, '', 'not for it', headers(8))
      c:publish(1, 'f.' .. queue, '', 'for it', headers(7))
      assert.equal('for it', get(c, queue).body)
      c:expect_refusal(1, 'queue.bind', { queue = queue, exchange = 'amq.topic', routing_key = 'a*' }, 406, 'wildcard')
      c:ask(1, 'exchange.unbind', { destination = 'h.' .. queue, source = 'f.' .. queue })
      c:leave()
    end)
  end)

  describe('messages', function()
    local all = Amqp.properties {
      { 'content-type', 'text/plain' }, { 'content-encoding', 'utf-8' },
      { 'headers', Amqp.table {
        { 'text', 'S', 'a b' }, { 'int', 'I', -5 }, { 'long', 'l', 1 << 40 }, { 'double', 'd', 2.5 }, { 'yes', 't', 1 },
        { 'time', 'T', 12345 }, { 'nothing', 'V' }, { 'price', 'D', '\2\0\0\48\57' }, { 'bytes', 'x', '\0\1' },
        { 'list', 'A', 'S\0\0\0\1xI\0\0\0\1' }, { 'in', 'F', Amqp.table { { 'deep', 'F', '' } } },
        { 'white space', 'S', 'kept' }, { 'text', 'S', 'twice' },
      } },
      { 'delivery-mode', 1 }, { 'priority', 3 }, { 'correlation-id', 'c-1' }, { 'reply-to', 'answers' },
      { 'expiration', '60000' }, { 'message-id', 'm-1' }, { 'timestamp', 1700000000 }, { 'type', 'order' },
      { 'user-id', 'guest' }, { 'app-id', 'shop' }, { 'reserved', 'r' },
    }

    it('keep their properties byte for byte, and others see them by name', function()
      local queue = fresh()
      local c = connect(queue)
      c:publish(1, '', queue, 'one', all)
      c:publish(1, '', queue, 'two', all)
      assert.equal(all, get(c, queue).properties)
      admin:send(('GET %s ack=auto\r\n'):format(queue))
      admin:expect '^OK 1$'
      local line = admin:expect '^MSG.*$'
      for _, word in ipairs {
        'h:content-type=text/plain', 'h:correlation-id=c-1', 'h:text=a%20b', 'h:int=-5', 'h:long=1099511627776',
        'h:double=2.5', 'h:yes=true', 'h:price=123.45', 'h:timestamp=1700000000', 'h:type=order', 'h:app-id=shop',
        'pri=3',
      } do
        assert.truthy((line .. ' '):find(' ' .. word .. ' ', 1, true), word .. ' is not in ' .. line)
      end
      assert.is_nil(line:find('amqp', 1, true))
      admin:expect '^two$'
      c:leave()
    end)

    it('of other protocols have properties made of their headers', function()
      local queue = fresh()
      local c = connect(queue)
      admin:send(('PUB - %s pri=4 h:content-type=text/html h:a=b h:reply-to=r 2\r\nhi\r\n'):format(queue))
      admin:expect '^OK'
      assert.equal(Amqp.properties {
        { 'content-type', 'text/html' }, { 'delivery-mode', 2 }, { 'priority', 4 }, { 'reply-to', 'r' },
        { 'headers', Amqp.table { { 'a', 'S', 'b' } } },
      }, get(c, queue).properties)
      c:leave()
    end)

    it('are returned when they must be routed and are not, before their confirm', function()
      local c = connect()
      c:ask(1, 'confirm.select')
      c:publish(1, '', 'nowhere', 'back', all, { mandatory = true })
      local m = c:expect_message(1, 'basic.return', { reply_code = 312, reply_text = 'NO_ROUTE',
        routing_key = 'nowhere' })
      assert.same({ 'back', all }, { m.body, m.properties })
      c:expect_method(1, 'basic.ack', { delivery_tag = 1 })
      confirmed(c, '', 'nowhere', 'dropped')
      c:leave()
      c = connect()
      c:publish(1, '', 'nowhere', '', nil, { mandatory = true })
      c:expect_message(1, 'basic.return', { reply_code = 312 })
      c:leave()
    end)

    it('are confirmed in order, several at a time, or refused', function()
      local queue = fresh()
      local c = connect(queue, { arguments = Amqp.table { { 'x-max-length', 'I', 1 },
        { 'x-overflow', 'S', 'reject-publish' } } })
      c:ask(1, 'confirm.select')
      confirmed(c, '', queue, 'fits')
      c:publish(1, '', queue, 'does not')
      c:expect_method(1, 'basic.nack', { delivery_tag = 2 })
      local text = {}
      for i = 1, 500 do text[i] = Amqp.publish_frames(1, '', 'nowhere', 'x') end
      c:send(table.concat(text))
      local last, frames = 2, 0
      while last < 502 do
        local ack = c:expect_method(1, 'basic.ack')
        assert.is_true(ack.delivery_tag == last + 1 or ack.multiple)
        last, frames = ack.delivery_tag, frames + 1
      end
      assert.is_true(frames < 500)
      c:expect_refusal(1, 'tx.select', {}, 406, 'confirm')
      c:publish(1, 'absent', 'k', 'x')
      c:expect_refusal(1, nil, nil, 404, 'absent')
      c:publish(1, '', queue, ('x'):rep(2 << 20))
      c:expect_refusal(1, nil, nil, 406, 'larger')
      for _, bad in ipairs { { 'user-id', 'somebody' }, { 'expiration', 'soon' } } do
        c:publish(1, '', queue, 'x', Amqp.properties { bad })
        c:expect_refusal(1, nil, nil, 406, bad[1])
      end
      c:leave()
    end)

    it('are taken without confirms when their channel is closed before they are durable', function()
      local queue = fresh()
      local c = connect(queue, { durable = true })
      for i = 1, 20 do
        c:send(Amqp.publish_frames(1, '', queue, 'm' .. i):rep(10) .. Amqp.method(1, 'channel.close'))
        c:expect_method(1, 'channel.close-ok')
        c:open_channel(1)
      end
      assert.equal(200, c:ask(1, 'queue.purge', { queue = queue }).message_count)
      c:leave()
    end)

    it('may be refused while the client closes their channel', function()
      local c = connect()
      c:publish(1, 'absent', 'k', 'x')
      c:send(Amqp.method(1, 'channel.close'))
      c:expect_method(1, 'channel.close', { reply_code = 404 })
      c:expect_method(1, 'channel.close-ok')
      c:send(Amqp.method(1, 'channel.close-ok'))
      c:open_channel(1)
      c:leave()
    end)

    it('are delivered within a prefetch, acknowledged, and given back', function()
      local queue = fresh()
      local c = connect(queue)
      for i = 1, 6 do c:publish(1, '', queue, 'm' .. i) end
      c:ask(1, 'basic.qos', { prefetch_count = 2 })
      assert.equal('me', c:ask(1, 'basic.consume', { queue = queue, consumer_tag = 'me' }).consumer_tag)
      for i = 1, 2 do
        local m = c:expect_message(1, 'basic.deliver', { consumer_tag = 'me', delivery_tag = i, redelivered = false })
        assert.equal('m' .. i, m.body)
      end
      c:send(Amqp.method(1, 'basic.ack', { delivery_tag = 2, multiple = true }))
      for i = 3, 4 do c:expect_message(1, 'basic.deliver', { delivery_tag = i }) end
      c:send(Amqp.method(1, 'basic.reject', { delivery_tag = 3, requeue = true }))
      assert.equal('m3', c:expect_message(1, 'basic.deliver', { delivery_tag = 5, redelivered = true }).body)
      -- A limit that is raised counts at once, for the consumer that is there.
      c:ask(1, 'basic.qos', { prefetch_count = 3 })
      assert.equal('m5', c:expect_message(1, 'basic.deliver', { delivery_tag = 6 }).body)
      c:send(Amqp.method(1, 'basic.nack', { delivery_tag = 6, multiple = true }))
      assert.equal('m6', c:expect_message(1, 'basic.deliver', { delivery_tag = 7 }).body)
      assert.equal('me', c:ask(1, 'basic.cancel', { consumer_tag = 'me' }).consumer_tag)
      c:ask(1, 'basic.recover', { requeue = true })
      assert.equal('m6', get(c, queue, { redelivered = true }).body)
      expect_empty(c, queue)
      c:send(Amqp.method(1, 'basic.ack', { delivery_tag = 7 }))
      c:expect_refusal(1, 'basic.ack', { delivery_tag = 77 }, 406, 'unknown delivery tag 77')
      c:leave()
    end)

    it('of all consumers of a channel share a global prefetch', function()
      local one, two = fresh(), fresh()
      local c = connect(one)
      c:ask(1, 'queue.declare', { queue = two })
      for _ = 1, 2 do
        c:publish(1, '', one, 'x')
        c:publish(1, '', two, 'x')
      end
      c:ask(1, 'basic.consume', { queue = one, consumer_tag = 'a' })
      for i = 1, 2 do c:expect_message(1, 'basic.deliver', { consumer_tag = 'a', delivery_tag = i }) end
      c:ask(1, 'basic.qos', { prefetch_count = 3, global = true })
      c:ask(1, 'basic.consume', { queue = two, consumer_tag = 'b' })
      c:expect_message(1, 'basic.deliver', { consumer_tag = 'b', delivery_tag = 3 })
      c:send(Amqp.method(1, 'basic.ack', { delivery_tag = 1 }))
      c:expect_message(1, 'basic.deliver', { consumer_tag = 'b', delivery_tag = 4 })
      c:leave()
    end)

    it('need no ack with no-ack, whose tags go on', function()
      local queue = fresh()
      local c = connect(queue)
      for i = 1, 3 do c:publish(1, '', queue, 'm' .. i) end
      local tag = c:ask(1, 'basic.consume', { queue = queue, no_ack = true }).consumer_tag
      assert.truthy(tag:find '^amq%.ctag%-')
      for i = 1, 3 do c:expect_message(1, 'basic.deliver', { delivery_tag = i }) end
      c:leave()
      c = connect()
      assert.equal(0, c:ask(1, 'queue.declare', { queue = queue, passive = true }).message_count)
      c:leave()
    end)

    it('are for the only consumer, the preferred one, and the next when a connection is gone', function()
      local queue = fresh()
      local c, other = connect(queue), connect()
      c:ask(1, 'basic.consume', { queue = queue, consumer_tag = 'low', exclusive = true })
      other:expect_refusal(1, 'basic.consume', { queue = queue }, 403, 'exclusive')
      c:ask(1, 'basic.cancel', { consumer_tag = 'low' })
      c:ask(1, 'basic.consume', { queue = queue, consumer_tag = 'low' })
      other:ask(1, 'basic.consume', { queue = queue, consumer_tag = 'high',
        arguments = Amqp.table { { 'x-priority', 'I', 5 } } })
      c:publish(1, '', queue, 'x')
      other:expect_message(1, 'basic.deliver', { consumer_tag = 'high' })
      other:close()
      c:expect_message(1, 'basic.deliver', { consumer_tag = 'low', redelivered = true })
      c:send(Amqp.method(1, 'basic.consume', { queue = queue, consumer_tag = 'low' }))
      c:expect_end(530, 'low')
    end)

    it('die into another queue with their history', function()
      local queue = fresh()
      local c = connect(queue, { arguments = Amqp.table { { 'x-dead-letter-exchange', 'S', '' },
        { 'x-dead-letter-routing-key', 'S', queue .. '.dead' } } })
      c:ask(1, 'queue.declare', { queue = queue .. '.dead' })
      --- Publish and reject a message with these properties, and give those of its dead letter.
      local function die(properties)
        c:publish(1, '', queue, 'x', properties)
        c:send(Amqp.method(1, 'basic.get', { queue = queue }))
        local m, dead = c:expect_message(1, 'basic.get-ok'), nil
        c:send(Amqp.method(1, 'basic.reject', { delivery_tag = m.delivery_tag }))
        assert.is_true(wait.poll(function()
          c:send(Amqp.method(1, 'basic.get', { queue = queue .. '.dead', no_ack = true }))
          local frame = c:read()
          if frame.values.name == 'basic.get-empty' then return false end
          dead = c:read().properties
          return c:read() ~= nil
        end))
        return dead, m.properties
      end
      local dead = die(Amqp.properties { { 'content-type', 'a/b' }, { 'expiration', '60000' },
        { 'headers', Amqp.table { { 'n', 'I', 1 } } } })
      for _, part in ipairs {
        '\3a/b', '\1nI\0\0\0\1', '\7x-deathA', '\5countl\0\0\0\0\0\0\0\1', '\6reasonS\0\0\0\8rejected',
        '\19x-first-death-queueS' .. ('>s4'):pack(queue),
      } do
        assert.truthy(dead:find(part, 1, true), ('%q'):format(part))
      end
      assert.falsy(dead:find('60000', 1, true), 'it would expire again when it is published again')
      -- What a client publishes again as it was keeps that history, until it dies.
      local again, between = die(dead)
      assert.equal(dead, between)
      for _, name in ipairs { '\7x-deathA', '\14x-death-reasonS', '\19x-first-death-queueS' } do
        local first, last = again:find(name, 1, true)
        assert.truthy(first, name)
        assert.falsy(again:find(name, last, true), name .. ' is there twice')
      end
      c:leave()
    end)

    it('take place with tx.commit alone', function()
      local queue = fresh()
      local c, other = connect(queue), connect()
      c:ask(1, 'tx.select')
      for _, word in ipairs { 'rollback', 'commit' } do
        c:publish(1, '', queue, word)
        expect_empty(other, queue)
        c:ask(1, 'tx.' .. word)
      end
      c:send(Amqp.method(1, 'basic.get', { queue = queue }))
      local m = c:expect_message(1, 'basic.get-ok')
      assert.equal('commit', m.body)
      c:send(Amqp.method(1, 'basic.ack', { delivery_tag = m.delivery_tag }))
      c:ask(1, 'tx.rollback')
      c:send(Amqp.method(1, 'basic.ack', { delivery_tag = m.delivery_tag }))
      c:ask(1, 'tx.commit')
      c:leave()
      expect_empty(other, queue)
      other:expect_refusal(1, 'tx.commit', {}, 406, 'transactional')
      other:leave()
    end)

    it('go by the keys of CC and BCC too, once to each queue, and BCC is not shown', function()
      local one, two, three = fresh(), fresh(), fresh()
      local c = connect(one)
      for _, queue in ipairs { two, three } do c:ask(1, 'queue.declare', { queue = queue }) end
      c:ask(1, 'confirm.select')
      local function array(...)
        local parts = {}
        for i, key in ipairs { ... } do parts[i] = ('S') .. ('>s4'):pack(key) end
        return table.concat(parts)
      end
      local function headers(cc, bcc, delay)
        local list = { { 'a', 'I', 1 } }
        if cc then list[#list + 1] = { 'CC', 'A', cc } end
        if bcc then list[#list + 1] = { 'BCC', 'A', bcc } end
        if delay then list[#list + 1] = { 'x-delay', 'I', delay } end
        list[#list + 1] = { 'z', 'S', 'z' }
        return Amqp.properties { { 'type', 't' }, { 'headers', Amqp.table(list) } }
      end
      confirmed(c, '', one, 'm', headers(array(two, one), array(three, two)))
      for _, queue in ipairs { one, two, three } do
        local m = get(c, queue, { exchange = '', routing_key = one, message_count = 0 })
        assert.same({ 'm', headers(array(two, one)) }, { m.body, m.properties })
      end
      -- A mandatory message is returned if no key leads to a queue.
      c:publish(1, '', 'nowhere', 'm', headers(nil, array(two)), { mandatory = true })
      c:expect_method(1, 'basic.ack')
      assert.equal(headers(), get(c, two).properties)
      c:publish(1, '', 'nowhere', 'm', headers(array 'nobody', array()), { mandatory = true })
      c:expect_message(1, 'basic.return', { reply_code = 312, routing_key = 'nowhere' })
      c:expect_method(1, 'basic.ack')
      -- Through an exchange, with bindings that overlap, and later.
      local x = 'copies.' .. one
      c:ask(1, 'exchange.declare', { exchange = x, type = 'topic' })
      for queue, key in pairs { [one] = 'a.*', [two] = '#', [three] = 'b.#' } do
        c:ask(1, 'queue.bind', { queue = queue, exchange = x, routing_key = key })
      end
      for _ = 1, 2 do
        confirmed(c, x, 'a.x', 'm', headers(array('a.y', 'c'), array 'b', 1))
        for _, queue in ipairs { one, two, three } do
          traffic.expect_counts(admin, queue, { ready = 1, delayed = 0 })
          assert.equal(headers(array('a.y', 'c'), nil, -1), get(c, queue, { routing_key = 'a.x' }).properties)
        end
      end
      -- Other messages of the channel have no more than their key.
      confirmed(c, x, 'a.x', 'm', headers())
      traffic.expect_counts(admin, three, { ready = 0 })
      -- An alternate takes it for the key that leads nowhere, also beside one that leads on.
      c:ask(1, 'exchange.declare', { exchange = 'd.' .. x, type = 'direct',
        arguments = Amqp.table { { 'alternate-exchange', 'S', x } } })
      c:ask(1, 'queue.bind', { queue = one, exchange = 'd.' .. x, routing_key = 'k' })
      confirmed(c, 'd.' .. x, 'k', 'm', headers(array 'b'))
      for _, queue in ipairs { one, two, three } do assert.equal('m', get(c, queue).body) end
      for _, queue in ipairs { one, two } do c:ask(1, 'queue.purge', { queue = queue }) end
      local many = {}
      for i = 1, 65 do many[i] = 'k' .. i end
      for _, bad in ipairs { headers(array 'a b'), headers(array ''), headers 'I\0\0\0\1',
        headers(array(table.unpack(many))), headers(array 'x', array(table.unpack(many, 1, 64))),
        Amqp.properties { { 'headers', Amqp.table { { 'CC', 'S', 'x' } } } } } do
        c:publish(1, '', one, 'x', bad)
        c:expect_refusal(1, nil, nil, 406, 'CC')
      end
      c:ask(1, 'tx.select')
      c:publish(1, '', one, 'x', headers(array(two)))
      c:expect_refusal(1, nil, nil, 406, 'several keys')
      expect_empty(c, two)
      c:ask(1, 'confirm.select')
      confirmed(c, x, 'a.x', ('x'):rep(5000), headers(array(table.unpack(many, 1, 64))))
      assert.equal(5000, #get(c, one).body)
      c:leave()
    end)

    it('wait for their x-delay, and go on with its sign turned', function()
      local queue = fresh()
      local x = 'delayed.' .. queue
      local c = connect(queue)
      local function declare(kind, argument)
        return { exchange = x, type = kind,
          arguments = Amqp.table { argument and { 'x-delayed-type', 'S', argument } or nil } }
      end
      c:ask(1, 'exchange.declare', declare('x-delayed-message', 'topic'))
      c:ask(1, 'exchange.declare', declare('x-delayed-message', 'topic'))
      for argument, text in pairs { [false] = 'delayed-type', ['x-delayed-message'] = 'delayed-type', fanout = x } do
        c:expect_refusal(1, 'exchange.declare', declare('x-delayed-message', argument), 406, text)
      end
      c:ask(1, 'queue.bind', { queue = queue, exchange = x, routing_key = '*.eu' })
      c:ask(1, 'confirm.select')
      local function headers(letter, delay)
        return Amqp.properties { { 'type', 't' }, { 'headers', Amqp.table { { 'a', 'I', 1 },
          { 'x-delay', letter, delay }, { 'z', 'S', 'z' } } } }
      end
      confirmed(c, x, 'orders.eu', 'late', headers('I', 3600000))
      expect_empty(c, queue)
      traffic.expect_counts(admin, queue, { ready = 0, delayed = 1 })
      for i, case in ipairs { { 'I', 1 }, { 'l', 1 }, { 'B', 1 }, { 'S', '1' }, { 'd', 1 }, { 'L', 1 } } do
        confirmed(c, x, 'orders.eu', 'm' .. i, headers(table.unpack(case)))
        traffic.expect_counts(admin, queue, { ready = 1, delayed = 1 })
        local m = get(c, queue)
        assert.same({ 'm' .. i, headers(case[1] == 'l' and 'l' or 'I', -1) }, { m.body, m.properties })
      end
      c:publish(1, x, 'nobody', 'back', headers('I', 1), { mandatory = true })
      assert.equal('back', c:expect_message(1, 'basic.return', { reply_code = 312 }).body)
      c:expect_method(1, 'basic.ack')
      -- What a consumer publishes again with the headers that it has got is there at once.
      for _, case in ipairs { { 'l', -3600000 }, { 'I', 0 } } do
        confirmed(c, x, 'orders.eu', 'again', headers(table.unpack(case)))
        assert.equal(headers(table.unpack(case)), get(c, queue).properties)
      end
      for _, bad in ipairs { { 'S', 'soon' }, { 'V' }, { 'l', 1 << 60 }, { 'd', 1.5 } } do
        c:publish(1, x, 'orders.eu', 'x', headers(table.unpack(bad)))
        c:expect_refusal(1, nil, nil, 406, 'x-delay')
      end
      c:leave()
    end)

    it('are answered directly, to the channel that has asked', function()
      local queue = fresh()
      local c, server = connect(queue), connect()
      local name = 'amq.rabbitmq.reply-to'
      c:publish(1, '', queue, '2', Amqp.properties { { 'reply-to', name } })
      c:expect_refusal(1, nil, nil, 406, 'reply-to')
      c:expect_refusal(1, 'basic.consume', { queue = name }, 406, 'acknowledge')
      c:ask(1, 'basic.consume', { queue = name, no_ack = true })
      c:expect_refusal(1, 'basic.consume', { queue = name, no_ack = true }, 406, 'already')
      local tag = c:ask(1, 'basic.consume', { queue = name, no_ack = true }).consumer_tag
      local function ask()
        c:publish(1, '', queue, '2', Amqp.properties { { 'correlation-id', 'c' }, { 'reply-to', name } })
        c:ask(1, 'basic.qos', {}) -- answered behind the publish
        local q = get(server, queue)
        local to = q.properties:match('amq%.rabbitmq%.reply%-to%.[%d.]+')
        assert.equal(Amqp.properties { { 'correlation-id', 'c' }, { 'reply-to', to } }, q.properties)
        return to
      end
      server:publish(1, '', ask(), '4')
      assert.equal('4', c:expect_message(1, 'basic.deliver', { consumer_tag = tag }).body)
      local to = ask()
      c:ask(1, 'basic.cancel', { consumer_tag = tag })
      server:publish(1, '', to, '4', nil, { mandatory = true })
      server:expect_message(1, 'basic.return')
      c:leave()
      server:leave()
    end)

    it('end a consumer when its queue is deleted', function()
      local queue = fresh()
      local c = connect(queue)
      c:ask(1, 'basic.consume', { queue = queue, consumer_tag = 'a tag' })
      admin:send(('DELETE queue %s\r\n'):format(queue))
      admin:expect '^OK'
      c:expect_method(1, 'basic.cancel', { consumer_tag = 'a tag', no_wait = true })
      c:leave()
    end)
  end)
end)
