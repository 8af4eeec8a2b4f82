-- What a retry script does besides its answer: it writes headers, chooses where a dead letter goes,
-- and publishes copies; what a crash leaves of it.

local Broker = require 'support.broker'
local json = require 'dkjson'
local wait = require 'support.wait'

-- What it does is in the message: h:do=…
local RETRY = [[
return {
  decide = function(msg, failure)
    local what = msg.headers["do"] or ""
    if what:find("write") then
      msg.headers["x-last-error"] = failure.reason
      msg.headers.tries = (tonumber(msg.headers.tries) or 0) + 1
      msg.headers.old = nil
    end
    if what:find("copy") then
      msg:copy { exchange = "-", key = msg.headers.to or "audit", headers = { from = msg.key, ["do"] = false } }
    end
    if what:find("target") then return tide.dead_letter(msg.headers.exchange or "-", msg.headers.key) end
    if what:find("bury") then return tide.BURY end
    if what:find("drop") then return tide.DROP end
    if what:find("dead") then return tide.DEAD_LETTER end
    return what:find("later") and 3600000 or 0
  end,
}
]]

-- Copies pass the filters.
local STAMP = [[
return { match = { key = "audit" }, publish = function(msg)
  if msg.headers.from == "refused" then return false, "no" end
  msg.headers.filtered = "yes"
end }
]]

local rules = { ['retry/powers.lua'] = RETRY, ['filter/stamp.lua'] = STAMP }

for _, durable in ipairs { '1', '0' } do
  describe(('a retry script, with durable=%s,'):format(durable), function()
    local broker, c

    setup(function() broker = Broker.start { rules = rules, args = { '--fsync', 'no' } } end)
    teardown(function() broker:expect_clean_stop() end)
    before_each(function()
      c = broker:enter_vhost()
      for _, name in ipairs { 'q', 'audit' } do
        c:ok(('DECLARE queue %s durable=%s shards=1 retry=%s delivery-limit=0'):format(name, durable, 'powers'))
      end
    end)
    after_each(function() c:close() end)

    -- Publish, take and give back; with what follows NACK <tag>.
    local function fail(headers, how)
      local id = c:ok('PUB - q ' .. headers, 'payload'):match '^%x+'
      local m = c:get('q')[1]
      assert.equal(id, m.options.id)
      c:ok(('NACK %s%s'):format(m.tag, how or ''))
      return id
    end

    it('writes headers of the message that comes back', function()
      local id = fail 'h:do=write h:old=1 h:kept=a%20b'
      local m = c:get('q')[1]
      assert.same({ id, 'payload', 2 }, { m.options.id, m.payload, m.attempt })
      assert.same({ ['do'] = 'write', kept = 'a b', tries = '1', ['x-last-error'] = 'nack' }, m.headers)
      c:ok('NACK ' .. m.tag)
      m = c:get('q')[1]
      assert.equal('2', m.headers.tries)
      c:ok('ACK ' .. m.tag)
      assert.same({ 0, 0, 0 }, { c:stats('q').ready, c:stats('q').unacked, c:stats('q').delayed })
    end)

    it('writes those of one that waits or is buried', function()
      fail 'h:do=write,later'
      assert.equal('1', c:peek('q state=delayed')[1].headers.tries)
      fail 'h:do=write,bury'
      assert.equal('1', c:peek('q state=buried')[1].headers.tries)
      c:ok('PUB - q ttl=20ms h:do=write,bury', 'expires')
      assert.is_true(wait.poll(function() return c:stats('q').buried == 2 end))
      assert.equal('expired', c:peek('q 2 state=buried')[2].headers['x-last-error'])
      if durable == '1' then
        broker:kill9_all()
        broker:run()
        c = broker:connect()
        assert.same({ '1', 1 }, { c:peek('q state=delayed')[1].headers.tries, c:peek('q state=delayed')[1].failures })
        local buried = c:peek('q state=buried')[1]
        assert.same({ '1', 'payload' }, { buried.headers.tries, buried.payload })
      end
    end)

    it('is asked about a message with another priority, and writes it too', function()
      fail('h:do=write', ' pri=7')
      local m = c:get('q')[1]
      assert.same({ '1', '7' }, { m.headers.tries, m.options.pri })
      c:ok('ACK ' .. m.tag)
    end)

    it('chooses where a dead letter goes', function()
      c:ok 'DECLARE exchange graves topic'
      c:ok 'BIND audit graves lost.#'
      local id = fail 'h:do=target,write h:exchange=graves h:key=lost.one'
      local m = c:get('audit')[1]
      assert.same({ 'graves', 'lost.one', id, 'nack', 'q', 'retry/powers.lua', '1' }, {
        m.exchange, m.key, m.headers['x-death-first-id'], m.headers['x-death-reason'], m.headers['x-death-queue'],
        m.headers['x-death-rule'], m.headers.tries })
      c:ok('ACK ' .. m.tag)
      assert.equal(1, c:stats('q').dead_lettered)
      -- Without a key it keeps its own; here nobody takes that.
      c:ok('PUB - q h:do=target,write h:exchange=graves', 'x')
      m = c:get('q')[1]
      c:ok('NACK ' .. m.tag)
      assert.equal(1, c:stats('q').buried)
      assert.equal('1', c:peek('q state=buried')[1].headers.tries)
    end)

    it('chooses for what has expired', function()
      c:ok('PUB - q ttl=20ms h:do=target h:key=audit', 'x')
      local m = c:get('audit wait=5s')[1]
      assert.same({ 'expired', 'audit' }, { m.headers['x-death-reason'], m.key })
      c:ok('ACK ' .. m.tag)
    end)

    it('publishes copies, which pass the filters', function()
      local id = fail 'h:do=copy,write'
      local m = c:get('audit')[1]
      assert.same({ 'audit', 'payload', '1' }, { m.key, m.payload, m.options.attempt or '1' })
      assert.same({ from = 'q', filtered = 'yes', tries = '1', ['x-last-error'] = 'nack' }, m.headers)
      assert.not_equal(id, m.options.id)
      c:ok('ACK ' .. m.tag)
      m = c:get('q wait=5s')[1]
      assert.same({ id, '1', 2 }, { m.options.id, m.headers.tries, m.attempt })
      c:ok('ACK ' .. m.tag)
      for _, what in ipairs { 'drop', 'bury', 'target h:key=audit' } do
        fail('h:do=copy,' .. what)
        c:ok('ACK ' .. c:get('audit wait=5s')[1].tag)
      end
      c:ok('ACK ' .. c:get('audit wait=5s')[1].tag) -- the dead letter
      assert.same({ 0, 1, 0 }, { c:stats('q').ready, c:stats('q').buried, c:stats('q').unacked })
    end)

    it('loses a copy that nobody takes, and nothing else', function()
      fail 'h:do=copy h:to=nobody'
      local m = c:get('q wait=5s')[1]
      broker:expect_log "a script's copy to exchange '%-' is lost: no queue takes key 'nobody'"
      c:ok('ACK ' .. m.tag)
    end)

    it('copies what its consumer leaves behind', function()
      local other = broker:connect()
      c:ok('PUB - q h:do=copy,write', 'x')
      other:get 'q'
      other:close()
      local m = c:get('q wait=5s')[1]
      assert.equal('gone', m.headers['x-last-error'])
      c:ok('ACK ' .. m.tag)
      assert.equal('gone', c:get('audit wait=5s')[1].headers['x-last-error'])
    end)

    it('has its message wait for its copy, and the group for the message', function()
      c:ok(('DECLARE queue g durable=%s shards=1 retry=powers delivery-limit=0 order-by=h:g'):format(durable))
      c:ok('PUB - g h:g=1 h:do=copy', 'first')
      c:ok('PUB - g h:g=1', 'second')
      c:ok('NACK ' .. c:get('g')[1].tag)
      local m = c:get('g wait=5s')[1]
      assert.equal('first', m.payload)
      c:ok('ACK ' .. m.tag)
      m = c:get('g wait=5s')[1]
      assert.equal('second', m.payload)
      c:ok('ACK ' .. m.tag)
    end)

    it('takes part in a transaction', function()
      for _, what in ipairs { 'copy,write', 'write,later', 'target h:key=audit', 'copy,drop', 'write,bury' } do
        c:ok('PUB - q h:do=' .. what, what)
      end
      c:ok 'BEGIN'
      c:get 'q max=5'
      assert.equal('OK queued', c:request 'NACK 1-5')
      assert.same({ 0, 5 }, { c:stats('audit').ready, c:stats('q').unacked })
      c:expect_answer('COMMIT', 'OK 0 5')
      local stats = c:stats 'q'
      assert.same({ 1, 0, 1, 1 }, { stats.ready, stats.unacked, stats.delayed, stats.buried })
      assert.equal(3, c:stats('audit').ready)
      assert.equal('1', c:peek('q state=delayed')[1].headers.tries)
      assert.equal('1', c:peek('q state=buried')[1].headers.tries)
      local m = c:get('q')[1]
      assert.same({ '1', 'copy,write' }, { m.headers.tries, m.payload })
      c:ok('ACK ' .. m.tag)
      local from = {}
      for _, copy in ipairs(c:get 'audit max=3') do
        from[#from + 1] = copy.headers.from or copy.headers['x-death-queue']
      end
      assert.same({ 'q', 'q', 'q' }, from)
    end)
  end)
end

describe('a retry script', function()
  local broker, c

  setup(function() broker = Broker.start { rules = rules, args = { '--fsync', 'no' } } end)
  teardown(function() broker:expect_clean_stop() end)
  before_each(function()
    c = broker:enter_vhost()
    c:ok 'DECLARE queue q retry=powers delivery-limit=0 shards=1'
    c:ok 'DECLARE queue audit'
  end)
  after_each(function() c:close() end)

  it('about a message of a topic chooses and copies, and writes no headers', function()
    c:ok 'DECLARE topic t partitions=1 retry=powers delivery-limit=0'
    c:send 'SUB t s group=g prefetch=10\r\n'
    c:expect_line 'OK'
    c:expect_line 'EVT assigned s 0'
    c:ok('PUB - t h:do=target,copy h:key=audit', 'a')
    c:ok('NACK ' .. c:expect_msg().tag)
    local two = c:get 'audit max=2 wait=5s'
    while #two < 2 do two[#two + 1] = c:get('audit wait=5s')[1] end
    table.sort(two, function(a, b) return (a.headers.from or '') < (b.headers.from or '') end)
    assert.same({ 't', 't' }, { two[1].headers['x-death-queue'], two[2].headers.from })
    c:ok('PUB - t h:do=write', 'b')
    c:ok('NACK ' .. c:expect_msg().tag)
    broker:expect_log "'msg.headers' is read%-only: what is in a topic does not change"
  end)

  it('is told of in a trace, with its line', function()
    local watch = broker:connect()
    watch:ok 'TRACE - q'
    c:ok('PUB - q h:do=copy,write,target h:key=audit', 'x')
    c:ok('NACK ' .. c:get('q')[1].tag)
    local event
    repeat event = json.decode((watch:expect '^EVT trace ({.*})$')) until event.what == 'returned'
    assert.same({ 'retry/powers.lua', 12, true }, { event.by, event.line, event.wrote_headers })
    assert.same({ exchange = '-', key = 'audit' }, event.target)
    assert.same({ { exchange = '-', key = 'audit' } }, event.copies)
    watch:close()
  end)

  it('differs from a candidate that chooses another target', function()
    local dir = broker:copy_rules('next', { ['retry/powers.lua'] =
      RETRY:gsub('msg.headers.exchange or "%-", msg.headers.key', '"-", "q"') })
    c:document('RULES shadow ' .. dir .. ' share=100%')
    c:ok('PUB - q h:do=target,copy h:key=audit', 'x')
    c:ok('NACK ' .. c:get('q')[1].tag)
    local failures = c:document('RULES shadow status').failures
    assert.same({ 1, 1 }, { failures.compared, failures.differing })
    assert.same({ exchange = '-', key = 'audit' }, failures.samples[1].live.target)
    assert.same({ exchange = '-', key = 'q' }, failures.samples[1].shadow.target)
    -- Also after they are published.
    assert.same({ { exchange = '-', key = 'audit' } }, failures.samples[1].live.copies)
    c:ok 'RULES shadow drop'
  end)
end)

describe('a crash', function()
  it('leaves a message with the headers, or as it was', function()
    local broker = Broker.start { rules = rules }
    local c = broker:connect()
    c:ok 'DECLARE queue q retry=powers delivery-limit=0 shards=1'
    c:ok 'DECLARE queue audit shards=1'
    for _ = 1, 50 do c:ok('PUB - q h:do=write,copy', 'x') end
    c:get 'q max=50'
    c:ok 'NACK 1-50'
    -- The first 25 are back: their copies are durable.
    assert.equal(25, #c:get 'q max=25 wait=5s')
    broker:kill9_all()
    broker:run()
    c = broker:connect()
    local seen, wrote = 0, 0
    repeat
      local m = c:get('q wait=5s')[1]
      seen = seen + 1
      assert.equal('x', m.payload)
      -- The headers, and the failure that they tell of, are written together.
      local peeked = c:peek('q 50 state=unacked')
      assert.equal(m.headers.tries and 1 or 0, peeked[#peeked].failures)
      wrote = wrote + (m.headers.tries and 1 or 0)
    until seen == 50
    assert.is_true(wrote >= 0)
    local copies = c:stats('audit').ready
    assert.is_true(copies >= 25, copies)
    broker:expect_clean_stop()
  end)
end)
