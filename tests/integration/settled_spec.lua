-- settled/: scripts that are told what has become of a message, and may publish copies.
local Broker = require 'support.broker'
local json = require 'dkjson'
local topics = require 'support.topics'
local wait = require 'support.wait'

-- What the queue is called says what its script does.
local RULES = {
  ['settled/10-tell.lua'] = [[
return {
  match = { queue = "q" },
  settled = function(msg, outcome)
    msg:copy {
      exchange = "-", key = "told", payload = msg.payload .. "!", priority = 0,
      headers = {
        event = outcome.event, reason = outcome.reason or "-", rule = outcome.rule or "-", queue = outcome.queue,
        user = outcome.user or "-", attempts = outcome.attempts, failures = outcome.failures,
        waited = outcome.waited_ms, took = outcome.took_ms, vhost = outcome.vhost, attempt = msg.attempt,
      },
    }
  end,
}]],
  ['settled/20-count.lua'] = [[
local settled = tide.counter "settled"
return { match = { queue = "counted" }, settled = function() settled:incr() end }]],
  ['settled/30-broken.lua'] = [[
return {
  match = { queue = "broken" },
  settled = function(msg)
    msg:copy { exchange = "-", key = "told" }
    local how = msg.headers.how
    if how == "raise" then error("oh no") end
    if how == "return" then return false end
    if how == "write" then msg.headers.x = "1" end
    if how == "key" then msg.key = "1" end
  end,
}]],
  ['settled/31-behind.lua'] = [[
return {
  match = { queue = "broken" },
  settled = function(msg) msg:copy { exchange = "-", key = "told", payload = "behind" } end,
}]],
  ['settled/40-nowhere.lua'] = [[
return {
  match = { queue = "nowhere" },
  settled = function(msg)
    msg:copy { exchange = "-", key = "no-such-queue" }
    msg:copy { exchange = "-", key = "told" }
  end,
}]],
  ['settled/50-log.lua'] = [[
local asked = tide.counter "records"
return {
  match = { queue = "t" },
  settled = function(msg, outcome)
    asked:incr()
    if msg.headers.silent then return end
    msg:copy {
      exchange = "-", key = "told", payload = msg.payload .. "!",
      headers = {
        event = outcome.event, reason = outcome.reason or "-", rule = outcome.rule or "-", group = outcome.group,
        place = msg.partition .. ":" .. msg.offset, user = outcome.user or "-", attempts = outcome.attempts,
        failures = outcome.failures, waited = outcome.waited_ms, took = outcome.took_ms,
      },
    }
  end,
}]],
  ['retry/choosing.lua'] = 'return { decide = function() return tide.dead_letter("-", "dead") end }',
  ['retry/dropping.lua'] = 'return { decide = function() return tide.DROP end }',
}

local function by_event(messages)
  local all = {}
  for _, m in ipairs(messages) do all[#all + 1] = m.headers.event end
  return table.concat(all, ' ')
end

local function get_all(c, queue)
  local all = {}
  repeat
    local some = c:get(queue .. ' max=1000')
    table.move(some, 1, #some, #all + 1, all)
  until #some == 0
  return all
end

for _, kind in ipairs {
  { name = 'on Redis', args = { '--fsync', 'no' } },
  { name = 'in memory', args = { '--store', 'none' } },
} do
  describe('a settled script ' .. kind.name, function()
    local broker, c

    setup(function() broker = Broker.start { args = kind.args, rules = RULES } end)
    teardown(function()
      broker:expect_clean_stop()
      broker:destroy()
    end)
    before_each(function()
      c = broker:enter_vhost()
      c:ok 'DECLARE queue told'
      c:ok 'DECLARE queue dead'
    end)
    after_each(function() c:close() end)

    --- What scripts have published, when there are so many.
    local function told(n)
      assert(wait.poll(function() return c:stats('told').ready >= n end), c:stats('told').ready)
      return c:get 'told max=100 ack=auto'
    end

    it('is told of an ack, and publishes before it is answered', function()
      c:ok 'DECLARE queue q'
      c:publish('q h:a=1 pri=7', 'hello')
      c:get 'q'
      c:ok 'ACK 1'
      assert.equal(1, c:stats('told').ready)
      local m = told(1)[1]
      assert.equal('hello!', m.payload)
      assert.same({ '1', 'ack', '-', '-', 'q', '-', '1', '0', broker.vhost, '1' },
        { m.headers.a, m.headers.event, m.headers.reason, m.headers.rule, m.headers.queue, m.headers.user,
          m.headers.attempts, m.headers.failures, m.headers.vhost, m.headers.attempt })
      assert.is_true(tonumber(m.headers.waited) >= 0 and tonumber(m.headers.took) >= 0)
      assert.equal(0, c:stats('q').unacked)
    end)

    it('is told of each way out', function()
      c:ok 'DECLARE queue q retry=fixed retry.delay=10ms retry.max=2 dead-letter=-/dead'
      c:publish('q', 'x')
      c:get 'q'
      c:ok 'NACK 1'
      c:get 'q wait=10s'
      c:ok 'NACK 2'
      local messages = told(2)
      assert.equal('retry dead-letter', by_event(messages))
      local first = messages[1].headers
      assert.same({ 'nack', 'shipped/retry/fixed.lua', '1', '1' },
        { first.reason, first.rule, first.attempts, first.failures })
      assert.same({ 'nack', '2', '2' },
        { messages[2].headers.reason, messages[2].headers.attempts, messages[2].headers.failures })
      assert.equal(1, c:stats('dead').ready)

      c:publish('q', 'y')
      c:get 'q'
      c:ok 'NACK 3 bury'
      c:publish('q', 'z')
      c:get 'q'
      c:ok 'NACK 4 dead'
      assert.equal('bury dead-letter', by_event(told(2)))
      local id = c:ok('PUB - q', 'removed'):match '^(%x+)'
      c:ok('REMOVE q ' .. id)
      local removed = told(1)[1]
      assert.same({ 'drop', 'removed', 'removed!' }, { removed.headers.event, removed.headers.reason, removed.payload })
      c:publish('q ttl=20ms', 'expired')
      messages = told(1)
      assert.same({ 'dead-letter', 'expired', '0' },
        { messages[1].headers.event, messages[1].headers.reason, messages[1].headers.took })
    end)

    it('is told of a dead letter whose target a retry script chose', function()
      c:ok 'DECLARE queue q retry=choosing'
      c:publish('q', 'x', 'y')
      c:get 'q max=2'
      c:ok 'NACK 1'
      assert.equal('dead-letter', by_event(told(1)))
      c:ok 'BEGIN'
      c:ok 'NACK 2'
      c:ok 'COMMIT'
      assert.equal('dead-letter', by_event(told(1)))
      assert.equal(2, c:stats('dead').ready)
    end)

    it('is told of what expires or is dropped, without a target', function()
      c:ok 'DECLARE queue q retry=dropping max-length=2 overflow=drop-head'
      c:publish('q ttl=20ms', 'expired')
      assert.equal('expired', by_event(told(1)))
      c:publish('q', 'x')
      c:get 'q'
      c:ok 'NACK 1'
      local m = told(1)[1]
      assert.same({ 'drop', 'nack' }, { m.headers.event, m.headers.reason })
      c:publish('q', '1', '2', '3')
      m = told(1)[1]
      assert.same({ 'drop', 'maxlen', '1!' }, { m.headers.event, m.headers.reason, m.payload })
      assert.equal(2, c:stats('q').ready)
    end)

    it('is told of what a queue that is full dead-letters', function()
      c:ok 'DECLARE queue q max-length=1 overflow=dead-letter dead-letter=-/dead'
      c:publish('q', '1', '2')
      local m = told(1)[1]
      assert.same({ 'dead-letter', 'maxlen', 'overflow', '1!' },
        { m.headers.event, m.headers.reason, m.headers.rule, m.payload })
      assert(wait.poll(function() return c:stats('dead').ready == 1 end))
    end)

    it('lets nobody overtake a message of a group that comes again', function()
      c:ok 'DECLARE queue q order-by=key retry=immediate'
      c:publish('q', '1', '2', '3')
      local other = broker:connect()
      other:ok 'SUB q s prefetch=3'
      local order = {}
      for i = 1, 6 do
        local m = other:expect_msg()
        order[i] = m.payload .. ':' .. m.attempt
        other:send(('%s %s quiet\r\n'):format(m.attempt == 1 and 'NACK' or 'ACK', m.tag))
      end
      assert.equal('1:1 1:2 2:1 2:2 3:1 3:2', table.concat(order, ' '))
      assert.equal(6, #told(6))
      other:close()
    end)

    it('is told of a timeout and of a connection that goes, once', function()
      c:ok 'DECLARE queue q retry=fixed retry.delay=1h'
      c:publish('q', '1', '2', '3')
      c:get 'q ack-timeout=10ms'
      local m = told(1)[1]
      assert.same({ 'retry', 'timeout' }, { m.headers.event, m.headers.reason })
      local other = broker:connect()
      other:get 'q max=2'
      other:close()
      m = told(1)[1]
      assert.same({ 'retry', 'gone', '2!' }, { m.headers.event, m.headers.reason, m.payload })
      assert(wait.poll(function() return c:stats('q').ready == 1 end))
      assert.equal(0, c:stats('told').ready)
    end)

    it('is told of what is acknowledged by its delivery', function()
      c:ok 'DECLARE queue q'
      c:publish('q', 'x', 'y')
      c:get 'q ack=auto'
      c:ok 'SUB q s ack=auto'
      c:expect_msg()
      local messages = told(2)
      assert.equal('ack ack', by_event(messages))
      assert.same({ '1', '0' }, { messages[2].headers.attempts, messages[2].headers.took })
    end)

    it('is told of what a group of a topic settles, which goes on when the copies are durable', function()
      c:ok 'DECLARE topic t partitions=1 retry=fixed retry.delay=10ms dead-letter=-/dead'
      c:publish('t', 'a', 'b', 'c', 'd')
      topics.sub(c, 's group=g prefetch=10 from=first')
      for _ = 1, 4 do c:expect_msg() end
      c:ok 'ACK 1-2'
      local messages = told(2)
      assert.equal('ack ack', by_event(messages))
      assert.same({ 'a!', 'g', '0:0', '-', '-', '1', '0' }, { messages[1].payload, messages[1].headers.group,
        messages[1].headers.place, messages[1].headers.reason, messages[1].headers.user, messages[1].headers.attempts,
        messages[1].headers.failures })
      assert.same({ 'b!', '0:1' }, { messages[2].payload, messages[2].headers.place })
      assert.is_true(tonumber(messages[1].headers.waited) >= 0 and tonumber(messages[1].headers.took) >= 0)
      local function committed() return c:document('LIST groups')[1].partitions[1].committed end
      assert(wait.poll(function() return committed() == 2 end), committed())

      c:ok 'NACK 3'
      local again = c:expect_msg()
      assert.equal('c 2', again.payload .. ' ' .. again.attempt)
      c:ok('ACK ' .. again.tag)
      c:ok 'NACK 4 dead'
      messages = told(3)
      assert.equal('retry ack dead-letter', by_event(messages))
      local headers = messages[1].headers
      assert.same({ 'nack', 'shipped/retry/fixed.lua', '1', '1' },
        { headers.reason, headers.rule, headers.attempts, headers.failures })
      assert.same({ '2', '1' }, { messages[2].headers.attempts, messages[2].headers.failures })
      assert.equal('rejected', messages[3].headers.reason)
      assert(wait.poll(function() return c:stats('dead').ready == 1 and committed() == 4 end), committed())

      local other = broker:connect()
      other:ok('PUB - t', 'e')
      other:close()
      c:ok(('NACK %s bury'):format(c:expect_msg().tag))
      assert.equal('bury', by_event(told(1)))
      assert(wait.poll(function() return committed() == 5 end), committed())
    end)

    it('is not told of what is read without a group, or with ack=auto', function()
      c:ok 'DECLARE topic t partitions=1'
      c:publish('t', 'a')
      topics.sub(c, 's from=first ack=auto group=auto')
      c:expect_msg()
      c:ok 'SUB t r from=first'
      c:expect_msg()
      c:ok 'ACK 1'
      topics.sub(c, 't from=first group=g')
      c:expect_msg()
      c:ok 'ACK 2'
      assert.equal('g', told(1)[1].headers.group)
      assert.equal(0, c:stats('told').ready)
    end)

    it('is told of each of many that a group acknowledges together', function()
      c:ok 'DECLARE topic t partitions=1'
      local before = c:document('STATS').counters.records
      topics.sub(c, 's group=g prefetch=3000')
      for _ = 1, 3000 do c:send 'PUB - t h:silent=1 quiet 1\r\nx\r\n' end
      for _ = 1, 3000 do c:expect_msg() end
      assert.equal('3000', c:ok 'ACK 1-3000')
      assert.equal(before + 3000, c:document('STATS').counters.records)
      assert(wait.poll(function() return c:document('LIST groups')[1].partitions[1].committed == 3000 end))
    end)

    it('knows the user', function()
      local vhost = broker.vhost
      broker.vhost = nil
      local a = broker:connect()
      broker.vhost = vhost
      a:document('HELLO user=alice vhost=' .. vhost)
      c:ok 'DECLARE queue q retry=fixed'
      c:publish('q', '1', '2', '3')
      a:get 'q'
      a:ok 'ACK 1'
      a:get 'q'
      a:ok 'NACK 2'
      a:get 'q ack=auto'
      for _, m in ipairs(told(3)) do assert.equal('alice', m.headers.user) end
      a:close()
    end)

    it('is told of each of many that are acknowledged together', function()
      c:ok 'DECLARE queue q'
      c:ok 'DECLARE queue counted'
      for _ = 1, 3000 do c:send 'PUB - counted quiet 1\r\nx\r\nPUB - q quiet 1\r\nx\r\n' end
      c:expect_nothing()
      assert.equal(3000, #get_all(c, 'counted'))
      assert.equal('3000', c:ok 'ACK 1-3000')
      assert.equal(3000, c:document('STATS').counters.settled)
      assert.equal(3000, #get_all(c, 'q'))
      assert.equal('3000', c:ok 'ACK 3001-6000')
      assert.equal(3000, c:stats('told').ready)
      c:close()
      c = broker:connect()
    end)

    it('that fails changes nothing, and the others are told', function()
      c:ok 'DECLARE queue broken'
      for i, how in ipairs { 'raise', 'return', 'write', 'key' } do
        c:publish('broken h:how=' .. how, 'x')
        c:get 'broken'
        c:ok('ACK ' .. i)
        assert.equal('behind', told(1)[1].payload)
        assert.equal(0, c:stats('told').ready)
      end
      assert.equal(0, c:stats('broken').unacked)
      c:publish('broken', 'x')
      c:get 'broken'
      c:ok 'ACK 5'
      assert.equal(2, #told(2))
      broker:expect_log "settled: settled/30%-broken.lua:6: oh no"
      local said
      for _, s in ipairs(c:document('RULES status').scripts) do
        if s.file == 'settled/30-broken.lua' then said = s end
      end
      assert.equal(4, said.errors)
      assert.is_truthy(said.last_error:find("'msg.key' is read-only; a settled script may publish a copy", 1, true))
    end)

    it('whose copy nobody takes changes nothing', function()
      c:ok 'DECLARE queue nowhere'
      c:publish('nowhere', 'x')
      c:get 'nowhere'
      c:ok 'ACK 1'
      assert.equal(1, #told(1))
      assert.equal(0, c:stats('nowhere').unacked)
      broker:expect_log "is lost: no queue takes key 'no%-such%-queue'"
    end)

    it('publishes as part of a transaction', function()
      c:ok 'DECLARE queue q dead-letter=-/dead'
      c:publish('q', 'a', 'b', 'c')
      c:get 'q max=3'
      c:ok 'BEGIN'
      c:ok 'ACK 1'
      c:ok 'NACK 2 dead'
      c:ok('PUB - no/such/queue must', 'x')
      assert.is_truthy(c:request('COMMIT'):find '^ERR unroutable')
      assert.same({ 0, 3 }, { c:stats('told').ready, c:stats('q').unacked })
      c:ok 'BEGIN'
      c:ok 'ACK 1'
      c:ok 'NACK 2 dead'
      c:ok 'COMMIT'
      assert.same({ 2, 1 }, { c:stats('told').ready, c:stats('q').unacked })
      local messages = told(2)
      assert.equal('ack dead-letter', by_event(messages))
      assert.same({ 'a!', 'b!' }, { messages[1].payload, messages[2].payload })
    end)

    it('is told by TRACE, with file and line', function()
      c:ok 'DECLARE queue broken'
      local watch = broker:connect()
      watch:ok 'TRACE - broken'
      c:publish('broken h:how=raise', 'x')
      c:get 'broken'
      c:ok 'ACK 1'
      local told_of = {}
      repeat
        local event = json.decode((watch:expect '^EVT trace ({.*})$'))
        if event.what == 'settled' then told_of[#told_of + 1] = event end
      until #told_of == 2
      assert.same({ 'broken', 'settled/30-broken.lua', 3, 'settled/30-broken.lua:6: oh no' },
        { told_of[1].queue, told_of[1].script, told_of[1].line, told_of[1].error })
      assert.same({ 'settled/31-behind.lua', 'ack', 1 }, { told_of[2].script, told_of[2].event, told_of[2].copies })
      watch:close()
    end)
  end)
end

describe('what a settled script publishes', function()
  local broker, c

  setup(function() broker = Broker.start { redis = {}, args = { '--fsync', 'no' }, rules = RULES } end)
  teardown(function() broker:destroy() end)
  before_each(function() c = broker:enter_vhost() end)

  -- Killed at any moment, the broker has removed no message of which the copy is not there.
  for round = 1, 3 do
    it(('is there when its message is not, after kill -9, round %d'):format(round), function()
      local count = 3000
      c:ok 'DECLARE queue q'
      c:ok 'DECLARE queue told'
      for i = 1, count do c:send(('PUB - q quiet %d\r\n%d\r\n'):format(#tostring(i), i)) end
      c:expect_nothing()
      assert.equal(count, #get_all(c, 'q'))
      for i = 1, count do c:send(('ACK %d\r\n'):format(i)) end
      for _ = 1, round * 700 do c:expect_line 'OK 1' end
      broker:kill9()
      c:close()
      broker:run()
      c = broker:connect()
      local is_there, left = {}, 0
      for _, m in ipairs(get_all(c, 'told')) do is_there[m.payload:sub(1, -2)] = true end
      for _, m in ipairs(get_all(c, 'q')) do
        left = left + 1
        is_there[m.payload] = is_there[m.payload] or 'again'
      end
      for i = 1, count do assert(is_there[tostring(i)], i) end
      assert.is_true(left <= count - round * 700)
      c:close()
    end)
  end

  it('is there when a group of a topic has gone on, after kill -9', function()
    local count = 2000
    c:ok 'DECLARE topic t partitions=1'
    c:ok 'DECLARE queue told'
    for i = 1, count do c:send(('PUB - t quiet %d\r\n%d\r\n'):format(#tostring(i), i)) end
    c:expect_nothing()
    topics.sub(c, ('s group=g from=first prefetch=%d'):format(count))
    for _ = 1, count do c:expect_msg() end
    for i = 1, count do c:send(('ACK %d\r\n'):format(i)) end
    local function committed()
      local value = broker.redis:cli('HGET', ('tide:{%s/t#0}:groups'):format(broker.vhost), 'g')
      return tonumber(value) or 0
    end
    assert(wait.poll(function() return committed() > 0 end))
    broker:kill9()
    c:close()
    broker:run()
    local first = committed()
    c = broker:connect()
    local is_there = {}
    for _, m in ipairs(get_all(c, 'told')) do is_there[tonumber((m.payload:sub(1, -2)))] = true end
    for i = 1, first do assert(is_there[i], i) end
    c:close()
  end)

  it('is waited for by the offset of a group', function()
    c:ok 'DECLARE topic t partitions=1'
    c:ok 'DECLARE queue told'
    c:ok('PUB - t h:silent=1', 'a')
    c:ok('PUB - t', 'b')
    topics.sub(c, 's group=g from=first prefetch=2')
    topics.expect_payloads(c, 'a', 'b')
    local pid = broker.redis:pid()
    broker.redis:signal('STOP', pid)
    c:ok 'ACK 1-2'
    assert.equal(1, topics.group(c, 'g').partitions[1].committed)
    broker.redis:signal('CONT', pid)
    assert(wait.poll(function() return topics.group(c, 'g').partitions[1].committed == 2 end))
    assert.equal(1, c:stats('told').ready)
    c:close()
  end)
end)
