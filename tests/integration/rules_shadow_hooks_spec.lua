-- Candidate scripts of deliver/, settled/, declare/ and connect/ in the shadow: asked beside the
-- active ones, and without effect.
local Broker = require 'support.broker'
local wait = require 'support.wait'

local broker, c

local function start(rules)
  broker = Broker.start { rules = rules or {}, args = { '--fsync', 'no' } }
  c = broker:connect()
end

--- The broker's rules with these files on top, in the shadow.
local function shadow(files, share)
  return c:document('RULES shadow ' .. broker:copy_rules('next', files) .. ' share=' .. (share or 100))
end

local function status() return c:document 'RULES shadow status' end

--- How many were compared and differ.
local function counts(figures) return { figures.compared, figures.differing } end

local function deliver(body)
  return ('return { match = { queue = "q" }, deliver = function(msg, consumer)\n%s\nend }'):format(body)
end

local function settled(body)
  return ('return { match = { queue = "q" }, settled = function(msg, outcome)\n%s\nend }'):format(body)
end

local function declare(body)
  return ([[return { match = { queue = "#" }, declare = function(what)
    if what.kind == "topic" then return end
    %s
  end }]]):format(body)
end

local function connect(body)
  return ('return { match = {}, connect = function(client)\n%s\nend }'):format(body)
end

describe('in the shadow', function()
  after_each(function()
    c:close()
    broker:expect_clean_stop()
    broker:destroy()
  end)

  describe('deliver/', function()
    local function publish(headers) c:ok('PUB - q' .. (headers or ''), 'hello') end

    it('is asked where the active rules have no script, and holds nothing back', function()
      start()
      c:ok 'DECLARE queue q'
      c:ok 'DECLARE queue other'
      shadow { ['deliver/10-no.lua'] = deliver 'return false, "not for " .. consumer.protocol' }
      publish ' h:tier=gold'
      c:ok('PUB - other', 'x')
      assert.equal('hello', c:get('q')[1].payload)
      assert.equal('x', c:get('other')[1].payload)
      local s = status()
      assert.equal(0, s.differing)
      assert.same({ 1, 1 }, counts(s.deliver))
      local sample = s.deliver.samples[1]
      assert.same({ 'q', 'q', '/', 'gold' }, { sample.queue, sample.key, sample.vhost, sample.headers.tier })
      assert.same({ verdict = 'give' }, sample.live)
      assert.same({ verdict = 'refuse', reason = 'not for line', file = 'deliver/10-no.lua', line = 1 }, sample.shadow)
    end)

    it('is compared by what it says, and which headers it writes', function()
      start { ['deliver/10-a.lua'] = deliver [[
        if msg.headers.how == "late" then return tide.now() % 7 + 60000 end
        msg.headers.a, msg.headers.b = "1", "2" ]] }
      c:ok 'DECLARE queue q'
      shadow { ['deliver/10-a.lua'] = deliver [[
        if msg.headers.how == "late" then return tide.now() % 7 + 60000 end
        msg.headers.b, msg.headers.a = "2", "1"
        if msg.headers.how == "write" then msg.headers.a, msg.headers.c = "3", "4" end
        if msg.headers.how == "delay" then return "30s" end
        if msg.headers.how == "fail" then error "oh no" end ]] }
      for _, how in ipairs { 'same', 'late', 'write', 'delay', 'fail' } do publish(' h:how=' .. how) end
      -- A slow turn may end before all are given.
      local given = 0
      wait.poll(function()
        given = given + #c:get 'q max=10'
        return given == 4
      end)
      assert.equal(4, given)
      local figures = status().deliver
      assert.same({ 5, 3 }, counts(figures))
      local fail, delay, write = table.unpack(figures.samples)
      assert.equal('rule', fail.shadow.code)
      assert.matches('deliver/10%-a.lua:.*oh no', fail.shadow.error)
      assert.same({ 'delay', 30000 }, { delay.shadow.verdict, delay.shadow.delay_ms })
      assert.is_nil(delay.changes)
      assert.same({ 'give', 'give' }, { write.live.verdict, write.shadow.verdict })
      assert.same({ { field = 'header', name = 'a', live = '1', shadow = '3' },
        { field = 'header', name = 'c', shadow = '4' } }, write.changes)
      -- What it writes is content: it is shown in its vhost.
      local other = broker:enter_vhost()
      local sample = other:document('RULES shadow status').deliver.samples[3]
      assert.equal('q', sample.queue)
      assert.is_nil(sample.key)
      assert.is_nil(sample.changes)
      other:close()
    end)

    it('leaves the counters of the active rules as they are', function()
      local count = 'msg.headers.n = tide.shared.incr("n")'
      start { ['deliver/10-a.lua'] = deliver(count) }
      c:ok 'DECLARE queue q'
      shadow { ['deliver/10-a.lua'] = deliver(count .. ' -- another file') }
      for n = 1, 3 do
        publish()
        assert.equal(tostring(n), c:get('q')[1].headers.n)
      end
      assert.same({ 3, 0 }, counts(status().deliver))
    end)

    it('is asked about topics, and for the share', function()
      start()
      c:ok 'DECLARE topic q'
      shadow({ ['deliver/10-a.lua'] = deliver 'msg.headers.x = "1"' }, 25)
      for _ = 1, 200 do publish() end
      local count = 0
      -- One that has taken long gives what it has; the rest waits until that is acknowledged.
      for _ = 1, 200 do
        if count < 200 then count = count + #c:get 'q group=g max=30 wait=5s ack=auto' end
      end
      assert.equal(200, count)
      local figures = status().deliver
      assert.equal(200, figures.seen)
      assert.is_true(figures.compared > 20 and figures.compared < 90, figures.compared)
      assert.equal(figures.compared, figures.differing)
    end)

    it('is not asked when nothing of it is new', function()
      start { ['deliver/10-a.lua'] = 'local n = 0\n' .. deliver 'n = n + 1 msg.headers.n = n' }
      c:ok 'DECLARE queue q'
      publish()
      assert.equal('1', c:get('q')[1].headers.n)
      shadow { ['settled/10-a.lua'] = settled '' }
      publish()
      assert.equal('2', c:get('q')[1].headers.n)
      assert.same({ 1, 0 }, counts(status().deliver))
    end)
  end)

  describe('settled/', function()
    it('is compared by the copies that it would publish', function()
      start { ['settled/10-a.lua'] = settled 'msg:copy { exchange = "-", key = "told" }' }
      for _, name in ipairs { 'q', 'told', 'other' } do c:ok('DECLARE queue ' .. name) end
      shadow { ['settled/10-a.lua'] = settled [[
        local how = msg.headers.how
        msg:copy { exchange = "-", key = how == "else" and "other" or "told" }
        if how == "two" then msg:copy { exchange = "-", key = "other" } end
        if how == "fail" then error "oh no" end ]] }
      for _, how in ipairs { 'same', 'else', 'two', 'fail' } do
        c:ok('PUB - q h:how=' .. how, 'x')
        c:get 'q ack=auto'
      end
      local figures = status().settled
      assert.same({ 4, 3 }, counts(figures))
      local fail, two, other = table.unpack(figures.samples)
      assert.matches('oh no', fail.shadow.error)
      assert.same({ 1, 2 }, { two.live.copies, two.shadow.copies })
      assert.same({ { copy = 1, field = 'key', live = 'told', shadow = 'other' } }, other.changes)
      assert.same({ 'q', 'ack' }, { other.queue, other.event })
      assert.same({ 4, 0 }, { c:stats('told').ready, c:stats('other').ready })
    end)

    it('is asked where the active rules have no script', function()
      start()
      c:ok 'DECLARE queue q'
      c:ok 'DECLARE queue told'
      shadow { ['settled/10-a.lua'] = settled 'msg:copy { exchange = "-", key = "told" }' }
      c:ok('PUB - q', 'x')
      local tag = c:get('q')[1].tag
      c:ok('NACK ' .. tag)
      c:ok('ACK ' .. c:get('q wait=5s')[1].tag)
      assert.same({ 2, 2 }, counts(status().settled))
      assert.same({ 0, 0 }, { c:stats('told').ready, c:stats('q').ready })
      c:ok('PUB - q', 'y')
      tag = c:get('q')[1].tag
      c:ok 'BEGIN'
      c:ok('ACK ' .. tag)
      c:ok 'COMMIT'
      c:ok 'DECLARE queue q max-length=1 overflow=drop-head update'
      c:ok('PUB - q', 'a')
      c:ok('PUB - q', 'b')
      assert.equal('b', c:get('q')[1].payload)
      assert.same({ 4, 4 }, counts(status().settled))
      assert.equal('drop', status().settled.samples[1].event)
      assert.equal(0, c:stats('told').ready)
    end)
  end)

  describe('declare/', function()
    local MOST <const> = 'what.options["max-length"] = what.options["max-length"] or %s'

    it('is asked about all that there is, and what is declared', function()
      start { ['declare/10-a.lua'] = declare(MOST:format '"1000"') }
      c:ok 'DECLARE queue a'
      c:ok 'DECLARE queue b max-length=7'
      c:ok 'DECLARE queue c ttl=1h'
      c:ok 'DECLARE topic t'
      c:ok 'DECLARE exchange x topic'
      local figures = shadow {
        ['declare/10-a.lua'] = declare(MOST:format '2000' .. [[

          if what.options.ttl then what.options.ttl = 3600000 end]]),
        ['declare/20-x.lua'] = [[return { match = { exchange = "x" }, declare = function(what)
          what.options.internal = true end }]],
        ['declare/30-t.lua'] = [[return { match = { queue = "t" }, declare = function()
          return false, "no topics" end }]],
      }.declare
      -- Those are asked about before it is there: who asked for it need not wait.
      assert.same({ 5, 4 }, counts(figures))
      local by_name = {}
      for _, sample in ipairs(figures.samples) do by_name[sample.name] = sample end
      assert.same({ kind = 'queue', name = 'a', vhost = '/',
        live = { options = { ['max-length'] = '1000' }, policy = 'declare/10-a.lua' },
        shadow = { options = { ['max-length'] = '2000' }, policy = 'declare/10-a.lua' } }, by_name.a)
      assert.is_nil(by_name.b)
      assert.same({ ['max-length'] = '2000' }, by_name.c.shadow.options)
      assert.same({ internal = '1' }, by_name.x.shadow.options)
      assert.same({ 'rejected', 'no topics (declare/30-t.lua)' }, { by_name.t.shadow.code, by_name.t.shadow.error })
      c:ok 'DECLARE queue late'
      c:ok 'DECLARE queue late' -- nothing is declared
      c:document 'RULES simulate declare kind=queue name=other'
      figures = status().declare
      assert.same({ 6, 5 }, counts(figures))
      assert.equal('late', figures.samples[1].name)
      for _, q in ipairs(c:document 'LIST queues') do
        if q.name ~= 'b' then assert.equal('1000', q.options['max-length']) end
      end
    end)

    it('says so when a policy asks for what cannot be', function()
      start()
      c:ok 'DECLARE queue a'
      local figures = shadow { ['declare/10-a.lua'] = declare 'what.options.ttl = "soon"' }.declare
      assert.same({ 1, 1 }, counts(figures))
      assert.same({ 'syntax', { options = {} } }, { figures.samples[1].shadow.code, figures.samples[1].live })
    end)

    it('is asked in slices, about more than a turn has time for', function()
      start()
      for n = 1, 3000 do c:send(('DECLARE queue q%d durable=0\r\n'):format(n)) end
      for _ = 1, 3000 do c:expect '^OK$' end
      local figures = shadow { ['declare/10-a.lua'] = declare 'what.options.ttl = "1h"' }.declare
      assert.same({ 3000, 3000 }, counts(figures))
      assert.equal(20, #figures.samples)
    end)

    it('can be dropped while it is asked', function()
      start()
      for n = 1, 3000 do c:send(('DECLARE queue q%d durable=0\r\n'):format(n)) end
      for _ = 1, 3000 do c:expect '^OK$' end
      local dir = broker:copy_rules('next', { ['declare/10-a.lua'] = declare 'what.options.ttl = "1h"' })
      c:send('RULES shadow ' .. dir .. '\r\n')
      local other = broker:connect()
      repeat
        local dropped = other:request 'RULES shadow drop'
      until dropped == 'OK'
      c:expect '^[DE][AR][TR]'
      other:close()
    end)
  end)

  describe('connect/', function()
    local function hello(user)
      local other = broker:connect()
      other:send('HELLO user=' .. user .. '\r\n')
      local answer = other:expect '^%u+'
      other:close()
      return answer
    end

    it('is compared by who is let in, where and with which limits', function()
      start { ['connect/10-a.lua'] = connect 'if client.user == "eve" then return false, "no" end' }
      shadow { ['connect/10-a.lua'] = connect [[
        if client.user == "bob" then return false, "not you" end
        if client.user == "ann" then return { vhost = "lobby", limits = { publish_rate = 5 } } end
        if client.user == "joe" then error "oh no" end ]] }
      for _, user in ipairs { 'bob', 'ann', 'joe', 'tom' } do assert.equal('DATA', hello(user)) end
      assert.equal('ERR', hello 'eve')
      local figures = status().connect
      assert.same({ 5, 4 }, counts(figures))
      local eve, joe, ann, bob = table.unpack(figures.samples)
      assert.same({ 'eve', '/', '127.0.0.1', 'line' }, { eve.user, eve.vhost, eve.address, eve.protocol })
      assert.same({ verdict = 'refuse', reason = 'no', file = 'connect/10-a.lua', line = 1 }, eve.live)
      assert.same({ verdict = 'allow' }, eve.shadow)
      assert.matches('oh no', joe.shadow.error)
      assert.same({ verdict = 'allow', vhost = 'lobby',
        limits = { max_channels = 0, publish_rate = 5, publish_bytes = 0 } }, ann.shadow)
      assert.equal('not you', bob.shadow.reason)
    end)

    it('is asked where the active rules have no script', function()
      start()
      shadow({ ['connect/10-a.lua'] = connect 'return false' }, 1)
      assert.equal('DATA', hello 'ann')
      assert.same({ 1, 1 }, counts(status().connect))
    end)
  end)
end)
