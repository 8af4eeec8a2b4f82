-- A message that fails at once, again and again, is paced: after three failures it comes again at once, then the
-- next delivery comes 10 ms, 20 ms, … 1 s after the one before. Counted by the broker's own counters.
local Broker = require 'support.broker'
local socket = require 'socket'
local wait = require 'support.wait'

local IMMEDIATE = 3
local GAPS = { 0, 0, 0, 10, 20, 40, 80, 160, 320, 640, 1000, 1000 } -- after the n-th delivery

local SLOW = [[
return {
  doc = "a delay of its own",
  options = { delay = { type = "duration", default = 0, min = 0, doc = "the delay" } },
  decide = function(_, _, opts) return opts.delay end,
}
]]

for _, durable in ipairs { '1', '0' } do
  describe(('a message that fails at once in a queue with durable=%s'):format(durable), function()
    local broker, c

    setup(function()
      broker = Broker.start { args = { '--fsync', 'no' }, rules = { ['retry/own.lua'] = SLOW } }
    end)
    teardown(function() broker:expect_clean_stop() end)
    before_each(function() c = broker:enter_vhost() end)
    after_each(function() c:close() end)

    local function declare(name, options)
      c:ok(('DECLARE queue %s durable=%s %s'):format(name, durable, options or 'shards=1'))
    end

    local function sum(from, to)
      local ms = 0
      for i = from, to do ms = ms + GAPS[i] end
      return ms
    end

    -- Take the one message of `q` as its `i`-th delivery, and have it fail. Says whether it was paced: a slow machine
    -- may have held it for longer than the gap.
    local function fail(i, how)
      local messages = c:get 'q wait=10s'
      assert.equal(1, #messages)
      assert.equal(i, messages[1].attempt)
      local delivered_ms = c:peek('q state=unacked')[1].holder.since
      -- In one turn of the broker.
      c:send(('NACK %s %s\r\nPEEK q state=delayed\r\n'):format(messages[1].tag, how):gsub(' \r', '\r'))
      c:expect_line 'OK 1'
      local delayed = c:expect_json().messages[1]
      if delayed then
        assert.equal(delivered_ms + GAPS[i], delayed.due)
      else
        assert.is_true(socket.gettime() * 1000 >= delivered_ms + GAPS[i], i .. ' came back too early')
      end
      return delayed ~= nil
    end

    local function storm(from, to, how)
      local paced = c:stats('q').paced
      for i = from, to do
        if fail(i, how) then paced = paced + 1 end
        local s = c:stats 'q'
        assert.same({ i, paced }, { s.delivered, s.paced })
        if i <= IMMEDIATE then assert.equal(0, paced) end
      end
      return paced
    end

    for _, how in ipairs { '', 'delay=0' } do
      it(('by NACK %s waits longer each time'):format(how), function()
        declare('q', 'delivery-limit=0 retry=own')
        c:ok('PUB - q', 'x')
        assert.is_true(storm(1, 9, how) > 0)
      end)
    end

    it('waits a second at most', function()
      declare('q', 'delivery-limit=0')
      c:ok('PUB - q', 'x')
      storm(1, 12, 'delay=0')
    end)

    it('because its consumers go away, waits too', function()
      declare('q', 'delivery-limit=0')
      c:ok('PUB - q', 'guilty')
      c:ok('PUB - q', 'innocent')
      local before = c:document('STATS').uptime_ms
      -- Each consumer holds both. The first is charged; the other one comes back as if it had not been taken.
      for i = 1, 9 do
        assert(wait.poll(function() return c:stats('q').ready == 2 end))
        local other = broker:connect()
        local messages = other:get 'q max=2'
        assert.same({ i, 1 }, { messages[1].attempt, messages[2].attempt })
        other:close()
        assert(wait.poll(function() return c:stats('q').unacked == 0 end))
        assert.is_true(c:stats('q').paced <= math.max(0, i - IMMEDIATE))
      end
      assert.is_true(c:document('STATS').uptime_ms - before >= sum(1, 8))
      assert.is_true(c:stats('q').paced > 0)
      assert.equal(9, c:peek('q state=delayed')[1].deliveries)
    end)

    it('waits no less than the retry script says', function()
      declare('q', 'retry=own retry.delay=1h')
      c:ok('PUB - q', 'x')
      local paced = storm(1, 4, 'delay=0')
      c:ok(('NACK %s'):format(c:get('q wait=10s')[1].tag))
      local m = c:peek('q state=delayed')[1]
      assert.is_true(m.due - m.ts >= 3600000)
      assert.equal(paced, c:stats('q').paced)
    end)

    it('is not paced when it was held for long enough', function()
      declare('q', 'ack-timeout=100ms delivery-limit=0')
      c:ok('PUB - q', 'x')
      -- 100 ms have passed since each delivery: longer than the gaps up to the seventh.
      for i = 1, 7 do assert.equal(i, c:get('q wait=10s')[1].attempt) end
      assert(wait.poll(function() return c:stats('q').timed_out == 7 end))
      assert.equal(0, c:stats('q').paced)
    end)

    it('lets others pass', function()
      declare('q', 'delivery-limit=0')
      c:ok('PUB - q', 'bad')
      storm(1, 10, 'delay=0')
      c:ok('PUB - q', 'good')
      local m = c:get('q wait=10s')[1]
      assert.is_true(m.payload == 'good' or m.attempt == 11)
    end)

    it('is counted over all queues', function()
      local before = c:document('STATS').paced
      declare('q', 'delivery-limit=0')
      c:ok('PUB - q', 'x')
      local paced = storm(1, 8, 'delay=0')
      assert.is_true(paced > 0)
      assert.equal(before + paced, c:document('STATS').paced)
    end)

    it('is simulated as it is', function()
      local document = c:document 'RULES simulate retry own delivery-limit=0 failures=12'
      local delays, by = {}, {}
      for i, row in ipairs(document.attempts) do delays[i], by[i] = row.delay_ms, row.by or '-' end
      assert.same(GAPS, delays)
      assert.equal('- - - ' .. ('pacing '):rep(9), table.concat(by, ' ') .. ' ')
      assert.equal(sum(1, 12), document.end_ms)
      -- What was held for a minute comes back at once.
      for _, row in ipairs(c:document('RULES simulate retry own reason=timeout').attempts) do
        assert.equal(row.happens == 'retry' and 0 or nil, row.delay_ms)
      end
    end)
  end)
end

describe('the pace of a message that fails at once', function()
  it('is kept across kill -9, and in the backlog', function()
    local broker = Broker.start { args = { '--window-messages', '16' } }
    local c = broker:connect()
    c:ok 'DECLARE queue q delivery-limit=0'
    for i = 1, 80 do c:ok('PUB - q', tostring(i)) end
    -- Each is delivered five times, by turns, and returns to a backlog that is in Redis alone.
    -- Each is delivered five times, by turns, and returns to a backlog that is in Redis alone.
    local held, paced, last, left = 0, 0, 0, 80
    while left > 0 do
      -- In one turn, unless Redis has to be read first.
      c:send(('GET q max=4 wait=10ms\r\nNACK %d-%d delay=0\r\n'):format(last + 1, last + 4))
      local messages = {}
      for i = 1, tonumber(c:expect '^OK %d$':match '%d') do messages[i] = c:expect_msg() end
      local is_settled = c:read_line():find '^OK'
      for _, m in ipairs(messages) do
        last = last + 1
        if not is_settled then c:ok(('NACK %s delay=0'):format(m.tag)) end
        if m.attempt > 3 and is_settled then paced = paced + 1 end
        if m.attempt > 3 and not is_settled then held = held + 1 end
        if m.attempt == 5 then left = left - 1 end
      end
    end
    local counted = c:stats('q').paced
    assert.is_true(paced >= 80 and counted >= paced and counted <= paced + held, ('%d of %d and %d'):format(counted,
      paced, held))
    c:close()
    broker:kill9()
    broker:run()
    c = broker:connect()
    c:ok 'DECLARE queue one delivery-limit=0'
    c:ok('PUB - one', 'x')
    for _ = 1, 9 do c:ok(('NACK %s delay=0'):format(c:get('one wait=10s')[1].tag)) end
    -- Redis has the attempts.
    c:ok('PUB - one', 'y')
    c:close()
    broker:kill9()
    broker:run()
    c = broker:connect()
    local m = c:get('one wait=10s')[1]
    if m.payload == 'y' then
      c:ok('ACK ' .. m.tag)
      m = c:get('one wait=10s')[1]
    end
    assert.equal(10, m.attempt)
    local delivered_ms = c:peek('one state=unacked')[1].holder.since
    c:send(('NACK %s delay=0\r\nPEEK one state=delayed\r\n'):format(m.tag))
    c:expect_line 'OK 1'
    local delayed = c:expect_json().messages
    assert.equal(delivered_ms + GAPS[10], delayed[1] and delayed[1].due)
    c:close()
    broker:expect_clean_stop()
  end)
end)
