-- NACK reason=: a text of the consumer that stays with the message.
local Broker = require 'support.broker'
local Http = require 'support.http'
local Stomp = require 'support.stomp'
local wait = require 'support.wait'

local HEADER = 'x-death-reason-text'
local RETRY = [[
return { decide = function(msg, failure)
  if not msg.offset then msg.headers.seen = tostring(failure.reason_text) end
  if failure.reason_text == "hopeless" then return tide.DEAD_LETTER end
  return 0
end }
]]

for _, durable in ipairs { '1', '0' } do
  describe(('the text of a NACK in a queue with durable=%s'):format(durable), function()
    local broker, c

    setup(function()
      broker = Broker.start { rules = { ['retry/reading.lua'] = RETRY }, args = { '--fsync', 'no' } }
    end)
    teardown(function() broker:expect_clean_stop() end)
    before_each(function() c = broker:enter_vhost() end)
    after_each(function() c:close() end)

    local function declare(name, options)
      c:ok(('DECLARE queue %s durable=%s %s'):format(name, durable, options or 'shards=1'))
    end

    it('is seen by whoever gets the message next, until another text comes', function()
      declare 'q'
      c:ok('PUB - q h:own=1', 'a')
      assert.is_nil(c:get('q')[1].headers[HEADER])
      c:ok 'NACK 1 delay=0 reason=disk%20full'
      assert.same({ own = '1', [HEADER] = 'disk full' }, c:get('q')[1].headers)
      c:ok 'NACK 2 requeue'
      assert.equal('disk full', c:get('q')[1].headers[HEADER])
      c:ok 'NACK 3 requeue reason=not%20mine'
      assert.same({ own = '1', [HEADER] = 'not mine' }, c:get('q')[1].headers)
      c:ok 'NACK 4 reason= delay=0'
      assert.equal('not mine', c:get('q')[1].headers[HEADER])
    end)

    it('stands beside pri=, and is shown by PEEK and FIND', function()
      declare('q', 'priority=strict')
      local id = c:ok('PUB - q', 'a'):match '^%x+'
      c:get 'q'
      c:ok 'NACK 1 bury pri=7 reason=later%0a%e2%82%ac'
      local m = c:peek('q state=buried')[1]
      assert.same({ 'nack', 'later\n€', 'later\n€', 7 }, { m.reason, m.reason_text, m.headers[HEADER], m.priority })
      assert.equal('later\n€', c:document('FIND q ' .. id).reason_text)
      assert.equal(1, #c:peek('q state=buried match=h:' .. HEADER))
    end)

    it('is cut to 256 bytes, and no character is', function()
      declare 'q'
      c:publish('q', 'a')
      local cases = {
        { ('x'):rep(300), 256 }, { 'x' .. ('€'):rep(100), 256 }, { 'xx' .. ('€'):rep(100), 254 },
        { ('\xbf'):rep(300), 253 },
      }
      c:get 'q'
      for tag, case in ipairs(cases) do
        c:ok(('NACK %d requeue reason=%s'):format(tag, case[1]))
        assert.equal(case[1]:sub(1, case[2]), c:get('q')[1].headers[HEADER])
      end
    end)

    it('goes to the dead letter, and comes back with it', function()
      declare 'dead'
      declare('q', 'dead-letter=-/dead')
      local line = 'PUB - q'
      for i = 1, 64 do line = ('%s h:n%d=%d'):format(line, i, i) end
      c:ok(line, 'a')
      c:get 'q'
      c:ok 'NACK 1 dead reason=no%20such%20customer'
      assert(wait.poll(function() return c:stats('dead').ready == 1 end))
      local m = c:peek('dead')[1]
      assert.same({ 'no such customer', '64' }, { m.reason_text, m.headers.n64 })
      assert.same({ queue = 'q', reason = 'rejected', attempts = 1, total = 1,
        time = math.tointeger(tonumber(m.headers['x-death-time'])) }, m.death)
      assert.equal('1 0', c:ok 'REDRIVE dead')
      assert.equal('no such customer', c:get('q wait=10s')[1].headers[HEADER])
    end)

    it('is read by the retry script', function()
      declare 'dead'
      declare('q', 'retry=reading dead-letter=-/dead')
      c:publish('q', 'a')
      c:get 'q'
      c:ok 'NACK 1'
      assert.equal('nil', c:get('q wait=10s')[1].headers.seen)
      c:ok 'NACK 2 reason=once%20more'
      local m = c:get('q wait=10s')[1]
      assert.same({ 'once more', 'once more' }, { m.headers.seen, m.headers[HEADER] })
      c:ok 'NACK 3 reason=hopeless'
      assert.equal('hopeless', c:get('dead wait=10s')[1].headers[HEADER])
    end)

    it('comes with a COMMIT, and not with a ROLLBACK', function()
      declare('q', 'retry=reading')
      c:publish('q', 'a', 'b')
      c:get 'q max=2'
      for _, ending in ipairs { 'ROLLBACK', 'COMMIT' } do
        c:ok 'BEGIN'
        c:ok('NACK 1 reason=' .. ending)
        c:ok('NACK 2 requeue reason=' .. ending)
        c:ok(ending)
      end
      local first, second = table.unpack(c:get 'q max=2 wait=10s')
      assert.same({ seen = 'COMMIT', [HEADER] = 'COMMIT' }, first.headers)
      assert.same({ [HEADER] = 'COMMIT' }, second.headers)
    end)

    it('is no option of what settles otherwise', function()
      declare 'q'
      c:publish('q', 'a')
      c:get 'q'
      c:expect_answer('ACK 1 reason=x', "ERR syntax ACK has no option 'reason'; it takes: none")
      c:expect_answer('PUB - q h:x-death-reason-text=x 0\r\n', "ERR denied the header 'x-death-reason-text' is the "
        .. "broker's; headers of a publish must not begin with x-death-")
    end)
  end)
end

describe('the text of a NACK', function()
  local broker, c

  setup(function() broker = Broker.start { http = '127.0.0.1:0', rules = { ['retry/reading.lua'] = RETRY } } end)
  teardown(function() broker:expect_clean_stop() end)
  before_each(function() c = broker:connect() end)
  after_each(function() c:close() end)

  it('survives the end of the broker and of Redis, with the failures', function()
    c:ok 'DECLARE queue kept'
    c:publish('kept', 'a', 'b', 'c')
    c:get 'kept max=3'
    c:ok 'NACK 1 delay=1h reason=one'
    c:ok 'NACK 2 bury reason=two'
    c:ok 'NACK 3 delay=0 reason=three'
    assert(wait.poll(function()
      return select(2, broker:redis_cli('HVALS', broker:key('kept', 'tries')):gsub('1 1 nack', '')) == 3
    end))
    broker:restart_after 'kill9_all'
    c = broker:connect()
    local found = {}
    for i, state in ipairs { 'delayed', 'buried', 'ready' } do
      found[i] = c:peek('kept state=' .. state)[1].reason_text
    end
    assert.same({ 'one', 'two', 'three' }, found)
    assert.equal('three', c:get('kept')[1].headers[HEADER])
  end)

  it('stays with a message of a topic for its group alone', function()
    c:ok 'DECLARE topic t partitions=1 dead-letter=-/tdead retry=reading order=0'
    c:ok 'DECLARE queue tdead'
    c:publish('t', 'a', 'b', 'c')
    assert.equal(3, #c:get 't group=g from=first max=3')
    c:ok 'NACK 1-2 requeue reason=not%20now'
    c:ok 'NACK 3 delay=0 reason=broken'
    local again = c:get 't group=g max=3'
    local texts = {}
    for i, m in ipairs(again) do texts[i] = m.payload .. ':' .. m.headers[HEADER] end
    assert.same({ 'a:not now', 'b:not now', 'c:broken' }, texts)
    assert.is_nil(c:get('t group=other from=first')[1].headers[HEADER])
    c:ok(('NACK %s requeue'):format(again[1].tag))
    c:ok(('NACK %s reason=hopeless'):format(again[2].tag))
    assert.equal('not now', c:get('t group=g')[1].headers[HEADER])
    local dead = c:get('tdead wait=10s')[1]
    assert.same({ 'b', 'hopeless', 't' }, { dead.payload, dead.headers[HEADER], dead.headers['x-death-queue'] })
  end)

  it('comes by STOMP and by HTTP', function()
    c:ok 'DECLARE queue doors'
    c:publish('doors', 'a')
    local s = Stomp.connect(broker)
    s:subscribe('1', '/queue/doors', { ack = 'client-individual' })
    local first = s:expect('MESSAGE', { subscription = '1' })
    s:frame('NACK', { id = first.headers.ack, requeue = 'true', reason = 'a:b' })
    local second = s:expect('MESSAGE', { subscription = '1' })
    assert.equal('a:b', second.headers[HEADER])
    s:close()
    local http = Http.connect(broker)
    local path = '/api/vhosts/%2F/queues/doors/'
    local m = http:expect(200, 'POST', path .. 'get', { wait = '10s' }).messages[1]
    assert.equal('a:b', m.headers[HEADER])
    assert.same({ count = 1 },
      http:expect(200, 'POST', path .. 'nack', { receipts = { m.receipt }, bury = true, reason = 'über' }))
    local shown = http:expect(200, 'GET', path .. 'messages?state=buried').messages[1]
    assert.equal('über', shown.reason_text)
    http:close()
  end)
end)
