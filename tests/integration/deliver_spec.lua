-- deliver/: scripts that are asked before a consumer is given a message.
local Broker = require 'support.broker'
local Client = require 'support.client'
local Http = require 'support.http'
local Stomp = require 'support.stomp'
local json = require 'dkjson'
local shell = require 'support.shell'
local socket = require 'socket'
local wait = require 'support.wait'

-- What the queue is called says what its script does.
local RULES = {
  ['deliver/10-only.lua'] = [[
local asked = tide.counter("asked")
return {
  match = { queue = "only" },
  deliver = function(msg, consumer)
    asked:incr()
    local to = msg.headers.to
    if to == "once" then
      if tide.shared.add("asked " .. msg.id, true, "1m") then return false end
      return
    end
    if to and to ~= consumer.name then return false, "it is for " .. to end
  end,
}]],
  ['deliver/20-later.lua'] = [[
return {
  match = { queue = { "later", "groups", "t" } },
  deliver = function(msg)
    local wait = msg.headers.wait
    if wait and msg.attempt == 1 and tide.shared.add("waited " .. msg.id, true, "1m") then
      return tonumber(wait) or wait, "not yet"
    end
  end,
}]],
  ['deliver/30-redact.lua'] = [[
return {
  match = { queue = { "headers", "th" }, except = { headers = { plain = true } } },
  deliver = function(msg, consumer)
    msg.headers.card = nil
    msg.headers.seen_by = (consumer.name or "-") .. "/" .. (consumer.sid or "-")
  end,
}]],
  ['deliver/31-redact.lua'] = [[
return {
  match = { queue = "headers", headers = { twice = true } },
  deliver = function(msg) msg.headers.seen_by = msg.headers.seen_by .. "!" end,
}]],
  ['deliver/40-facts.lua'] = [[
return {
  match = { queue = "facts" },
  deliver = function(msg, c)
    msg.headers.facts = table.concat({ c.user or "-", c.name or "-", c.address, c.vhost, c.queue, c.channel,
      c.sid or "-", c.unacked, c.prefetch, c.protocol, msg.attempt, msg.vhost }, " ")
  end,
}]],
  ['deliver/50-broken.lua'] = [[
return {
  match = { queue = { "broken", "tb" } },
  deliver = function(msg)
    if msg.headers.broken and not tide.shared.get "repaired" then error("broken: " .. msg.headers.broken) end
  end,
}]],
  ['deliver/60-refuse.lua'] = [[
return {
  match = { queue = { "ordered", "tr" } },
  deliver = function(msg)
    if msg.headers.refuse and tide.shared.add("refused " .. msg.id, true, "1m") then return false end
  end,
}]],
}

for _, kind in ipairs {
  { name = 'on Redis', args = { '--fsync', 'no' } },
  { name = 'in memory', args = { '--store', 'none' } },
} do
  describe('a deliver script ' .. kind.name, function()
    local broker, c

    local begins = {}
    setup(function()
      broker = Broker.start { args = kind.args, rules = RULES, http = '127.0.0.1:0' }
      for _, begin in ipairs(begins) do begin() end
    end)
    teardown(function()
      broker:expect_clean_stop()
      broker:destroy()
    end)
    before_each(function() c = broker:enter_vhost() end)
    after_each(function() c:close() end)

    --- What `connect` gives, in no vhost yet.
    local function outside(connect)
      local vhost = broker.vhost
      broker.vhost = nil
      local other = connect()
      broker.vhost = vhost
      return other
    end
    local function hello(words)
      local other = outside(function() return broker:connect() end)
      other:document(('HELLO %s vhost=%s'):format(words, broker.vhost))
      return other
    end
    local function named(name) return hello('name=' .. name) end
    local function payloads(client, words) return Client.payload_text(client:get(words)) end
    local function expect_payloads(client, ...)
      local last
      for _, payload in ipairs { ... } do
        last = client:expect_msg()
        assert.equal(payload, last.payload)
      end
      return last
    end

    describe('refuses', function()
      for _, shards in ipairs { 1, 4 } do
        it(('and another consumer gets the message, over %d shards'):format(shards), function()
          c:ok(('DECLARE queue only shards=%d sharding=round_robin'):format(shards))
          local a, b = named 'a', named 'b'
          a:ok 'SUB only s prefetch=100'
          c:publish('only h:to=b', 'for b 1', 'for b 2')
          c:publish('only h:to=a', 'for a 1')
          c:publish('only', 'any')
          local got = {}
          for _ = 1, 2 do got[#got + 1] = a:expect_msg().payload end
          table.sort(got)
          assert.same({ 'any', 'for a 1' }, got)
          a:expect_nothing()
          b:ok 'SUB only s prefetch=100'
          expect_payloads(b, 'for b 1', 'for b 2')
          c:publish('only h:to=b', 'for b 3')
          c:publish('only h:to=a', 'for a 2')
          expect_payloads(b, 'for b 3')
          expect_payloads(a, 'for a 2')
          a:close()
          b:close()
        end)
      end

      it('and what comes back before the refused ones is still given', function()
        c:ok 'DECLARE queue only'
        local a = named 'a'
        a:ok 'SUB only s prefetch=2'
        c:publish('only h:to=a', '1')
        c:publish('only h:to=b', 'x', 'y', 'z')
        c:publish('only h:to=a', '2', '3')
        local one = expect_payloads(a, '1')
        expect_payloads(a, '2')
        a:ok('NACK ' .. one.tag .. ' requeue')
        one = expect_payloads(a, '1')
        assert.is_true(one.redelivered)
        a:send('ACK ' .. one.tag .. ' quiet\r\n')
        expect_payloads(a, '3')
        assert.equal(3, c:stats('only').ready)
        a:close()
      end)

      it('and nobody is asked again and again', function()
        c:ok 'DECLARE queue only'
        local function asked() return c:document('STATS').counters.asked end
        local a = named 'a'
        c:publish('only h:to=b', table.unpack { '1', '2', '3', '4', '5' })
        a:ok 'SUB only s prefetch=100'
        a:expect_nothing()
        local before = asked()
        for i = 1, 20 do c:publish('only h:to=a', 'a' .. i) end
        for i = 1, 20 do assert.equal('a' .. i, a:expect_msg().payload) end
        -- At most one more round meanwhile, after its 5 seconds.
        assert.is_true(asked() - before <= 20 + 5, asked() - before)
        a:close()
      end)

      it('and a GET waits, or takes what is for it', function()
        c:ok 'DECLARE queue only'
        local a = named 'a'
        c:publish('only h:to=b', 'x')
        assert.equal('', payloads(a, 'only'))
        c:publish('only h:to=a', '1', '2')
        assert.equal('1 2', payloads(a, 'only max=10'))
        a:send 'GET only wait=1h\r\n'
        c:publish('only h:to=a', '3')
        a:expect_line 'OK 1'
        expect_payloads(a, '3')
        c:publish('only h:to=a h:tier=gold', '4')
        c:publish('only h:to=b h:tier=gold', 'y')
        c:publish('only h:to=a h:tier=gold', '5')
        assert.equal('4 5', payloads(a, 'only max=10 match=h:tier=gold'))
        a:close()
      end)

      it('and a GET by id says so', function()
        c:ok 'DECLARE queue only'
        local id = c:ok('PUB - only h:to=b', 'x'):match '^(%x+) 1$'
        c:expect_answer('GET only id=' .. id, 'ERR denied deliver/10-only.lua refuses it: it is for b')
        assert.equal(1, c:stats('only').ready)
        local b = named 'b'
        assert.equal('x', payloads(b, 'only id=' .. id))
        b:close()
      end)
    end)

    describe('delays', function()
      it('and nobody gets the message before', function()
        c:ok 'DECLARE queue later'
        c:publish('later h:wait=1h', 'x')
        c:publish('later h:wait=20', 'y')
        c:publish('later', 'z')
        c:ok 'SUB later s prefetch=10'
        expect_payloads(c, 'z')
        local y = expect_payloads(c, 'y')
        assert.equal(1, y.attempt)
        local stats = c:stats 'later'
        assert.same({ 0, 1, 2 }, { stats.ready, stats.delayed, stats.unacked })
      end)

      it('and it keeps its place in its group', function()
        c:ok 'DECLARE queue groups order-by=h:g'
        c:publish('groups h:g=1 h:wait=50', 'first')
        c:publish('groups h:g=1', 'second')
        c:publish('groups h:g=2', 'other')
        c:ok 'SUB groups s prefetch=10'
        expect_payloads(c, 'other')
        local first = expect_payloads(c, 'first')
        c:send('ACK ' .. first.tag .. ' quiet\r\n')
        expect_payloads(c, 'second')
      end)

      it('and a partition of a topic waits', function()
        c:ok 'DECLARE topic t partitions=1'
        c:publish('t h:wait=50', 'first')
        c:publish('t', 'second')
        c:ok 'SUB t s group=g prefetch=10'
        c:expect '^EVT assigned'
        expect_payloads(c, 'first', 'second')
        c:ok 'ACK 1-2'
      end)
    end)

    describe('writes headers', function()
      it('of one delivery, and the message stays as it is', function()
        c:ok 'DECLARE queue headers'
        local big = ('x'):rep(20000)
        c:publish('headers h:card=4711 h:keep=1', 'small', big)
        c:publish('headers h:card=4711 h:plain=1', 'plain')
        c:publish('headers h:twice=1', 'twice')
        local a = named 'a'
        a:ok 'SUB headers s1 prefetch=10'
        local m = a:expect_msg()
        assert.same({ keep = '1', seen_by = 'a/s1' }, m.headers)
        m = expect_payloads(a, big)
        assert.same({ keep = '1', seen_by = 'a/s1' }, m.headers)
        m = expect_payloads(a, 'plain')
        assert.same({ card = '4711', plain = '1' }, m.headers)
        m = expect_payloads(a, 'twice')
        assert.same({ twice = '1', seen_by = 'a/s1!' }, m.headers)
        a:close()
        assert.is_truthy(wait.poll(function() return c:stats('headers').ready == 4 end))
        local got = c:get 'headers max=2'
        assert.same({ keep = '1', seen_by = '-/-' }, got[1].headers)
        assert.same({ keep = '1', seen_by = '-/-' }, got[2].headers)
        assert.equal(big, got[2].payload)
        assert.equal('4711', c:document('FIND headers ' .. got[1].options.id).headers.card)
      end)

      it('of a message that is acknowledged by its delivery', function()
        c:ok 'DECLARE queue headers'
        c:publish('headers h:card=4711', 'x', 'y')
        assert.same({ seen_by = '-/-' }, c:get('headers ack=auto')[1].headers)
        c:ok 'SUB headers s ack=auto'
        assert.same({ seen_by = '-/s' }, c:expect_msg().headers)
      end)

      it('of topics, for groups, readers and GETs', function()
        c:ok 'DECLARE topic th partitions=1'
        c:publish('th h:card=4711', 'x', 'y')
        c:ok 'SUB th s group=g prefetch=10'
        c:expect '^EVT assigned'
        assert.same({ seen_by = '-/s' }, expect_payloads(c, 'x').headers)
        assert.same({ seen_by = '-/s' }, expect_payloads(c, 'y').headers)
        c:ok 'SUB th r from=first ack=auto'
        assert.same({ seen_by = '-/r' }, expect_payloads(c, 'x').headers)
        assert.same({ seen_by = '-/r' }, expect_payloads(c, 'y').headers)
        assert.same({ seen_by = '-/-' }, c:get('th group=pull max=2')[2].headers)
      end)

      it('over STOMP and HTTP', function()
        c:ok 'DECLARE queue headers'
        c:publish('headers h:card=4711', 'one', 'two')
        local vhost = broker.vhost
        local stomp = outside(function() return Stomp.connect(broker, { host = vhost }) end)
        stomp:subscribe('1', '/queue/headers', { ack = 'client-individual', ['prefetch-count'] = '1' })
        local frame = stomp:expect 'MESSAGE'
        assert.is_nil(frame.headers.card)
        assert.equal('-/1', frame.headers.seen_by)
        local http = Http.connect(broker)
        local path = ('/api/vhosts/%s/queues/headers/get'):format(vhost)
        local messages = http:expect(200, 'POST', path, {}).messages
        assert.same({ seen_by = '-/-' }, messages[1].headers)
        http:close()
        stomp:close()
      end)
    end)

    it('knows the consumer', function()
      c:ok 'DECLARE queue facts'
      c:publish('facts', 'x', 'y', 'z')
      local a = hello 'user=alice name=laptop'
      a:send '@3 OPEN\r\n@3 SUB facts s prefetch=2\r\n'
      a:expect_line '@3 OK'
      a:expect_line '@3 OK'
      local v = broker.vhost
      assert.equal(('alice laptop 127.0.0.1 %s facts 3 s 0 2 line 1 %s'):format(v, v),
        a:expect_msg(nil, 3).headers.facts)
      assert.equal(('alice laptop 127.0.0.1 %s facts 3 s 1 2 line 1 %s'):format(v, v),
        a:expect_msg(nil, 3).headers.facts)
      assert.equal(('- - 127.0.0.1 %s facts 0 - 0 0 line 1 %s'):format(v, v), c:get('facts')[1].headers.facts)
      a:close()
    end)

    --- A test of what takes some seconds, which pass while the tests before it run: all of them
    --- `begin` with the broker.
    local function it_slowly(name, begin, expect)
      local client, vhost
      begins[#begins + 1] = function()
        client = broker:enter_vhost()
        vhost = broker.vhost
        begin(client)
      end
      it(name, function()
        broker.vhost = vhost
        expect(client)
        client:close()
      end)
    end

    -- First, because others must not see a reload.
    it_slowly('that fails keeps the message, and the others go on', function(client)
      client:ok 'DECLARE queue broken'
      client:publish('broken h:broken=' .. broker.vhost, 'x')
      client:publish('broken', 'y')
      client:ok 'SUB broken s prefetch=10'
      expect_payloads(client, 'y')
      local stats = client:stats 'broken'
      assert.same({ 0, 1, 1 }, { stats.ready, stats.delayed, stats.unacked })
      broker:expect_log('deliver/50%-broken.lua:4: broken: ' .. broker.vhost:gsub('%-', '%%-'))
      for _, rule in ipairs(client:document('RULES status').scripts) do
        if rule.file == 'deliver/50-broken.lua' then assert.is_true(rule.errors > 0) end
      end
      broker:write_rule('deliver/50-broken.lua', 'return { match = { queue = "broken" }, deliver = function() end }')
      client:document 'RULES reload'
    end, function(client)
      local x = client:expect_msg(20)
      assert.same({ 'x', 1, false }, { x.payload, x.attempt, x.redelivered })
    end)

    it_slowly('refuses until it says otherwise, a few seconds later at most', function(client)
      client:ok 'DECLARE queue only'
      client:publish('only h:to=once', 'x')
      client:ok 'SUB only s'
      client:expect_nothing()
    end, function(client)
      assert.equal('x', client:expect_msg(20).payload)
    end)

    it_slowly('refuses in vain where messages keep an order: that is an error', function(client)
      client:ok 'DECLARE queue ordered order-by=key'
      client:publish('ordered h:refuse=1', 'x')
      client:ok 'SUB ordered s'
    end, function(client)
      assert.equal('x', client:expect_msg(20).payload)
      broker:expect_log 'deliver/60%-refuse.lua:3: deliver may not refuse what must keep its order'
    end)

    it('is told by TRACE, with file and line', function()
      c:ok 'DECLARE queue later'
      local watch = broker:connect()
      watch:ok 'TRACE - later'
      c:publish('later h:wait=20', 'x')
      c:get 'later wait=10s'
      local offers = {}
      repeat
        local event = json.decode((watch:expect '^EVT trace ({.*})$'))
        if event.what == 'offered' then offers[#offers + 1] = event end
      until event.what == 'delivered'
      assert.same({ 'later', 'deliver/20-later.lua', 3, 'delay', 20, 'not yet' },
        { offers[1].queue, offers[1].script, offers[1].line, offers[1]['then'], offers[1].delay_ms, offers[1].reason })
      assert.equal('give', offers[2]['then'])
      watch:close()
    end)

    -- The first message of the queue, until the trace has begun, and what is printed about it.
    local function is_printed(queue, options, text)
      c:ok('DECLARE queue ' .. queue)
      local path = broker.dir .. '/traced'
      local command = ("%s trace --url '%s' --for 30s --max 1 - %s > '%s' 2>&1 &"):format(
        Broker.binary(), broker:url(), queue, path)
      assert(os.execute(command))
      assert(wait.poll(function()
        c:publish(queue .. ' ' .. options, 'x')
        c:get(queue)
        return (shell.read_file(path) or ''):find(text, 1, true)
      end), shell.read_file(path))
    end

    it('is told by tidemq trace', function()
      is_printed('only', 'h:to=b', 'only, deliver/10-only.lua:4: refuse, it is for b')
    end)

    it('and the headers that it has changed', function()
      is_printed('headers', 'h:card=4711', 'headers, deliver/30-redact.lua:3: give, with the headers seen_by=-/-\n')
    end)

    it('that is new asks about what was refused at once', function()
      -- After 5 seconds it is asked about in any case: what takes so long says nothing.
      local function is_asked_before()
        c:ok 'DECLARE queue only'
        c:publish('only h:to=nobody', 'x')
        local began = socket.gettime()
        c:ok 'SUB only s'
        c:expect_nothing()
        broker:write_rule('deliver/10-only.lua', 'return { match = { queue = "only" }, deliver = function() end }')
        c:document 'RULES reload'
        assert.equal('x', c:expect_msg(20).payload)
        local took = socket.gettime() - began
        broker:write_rule('deliver/10-only.lua', RULES['deliver/10-only.lua'])
        c:document 'RULES reload'
        c:ok 'UNSUB s'
        c:ok 'DELETE queue only'
        return took < 5
      end
      local is_asked = false
      for _ = 1, 5 do is_asked = is_asked or is_asked_before() end
      assert.is_true(is_asked)
    end)
  end)
end
