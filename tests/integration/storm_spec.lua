-- A message that comes back at once, again and again, is paced: three returns are immediate, then the
-- next delivery comes 10 ms, 20 ms, … 1 s after the one before. Counted by the broker's own counters.
local Broker = require 'support.broker'
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

    -- The deliveries `from` to `to` of the one message in `q`, each of which `fail` ends. Gives the time that passed
    -- for the broker.
    local function storm(from, to, fail)
      local before = c:document('STATS').uptime_ms
      for i = from, to do
        local messages = c:get 'q wait=10s'
        assert.equal(1, #messages)
        assert.equal(i, messages[1].attempt)
        fail(messages[1])
        local s = c:stats 'q'
        assert.same({ i, math.max(0, i - IMMEDIATE) }, { s.delivered, s.paced })
        if GAPS[i] == 0 then assert.same({ 1, 0 }, { s.ready, s.delayed }) end
      end
      return c:document('STATS').uptime_ms - before
    end

    local function sum(from, to)
      local ms = 0
      for i = from, to do ms = ms + GAPS[i] end
      return ms
    end

    local ways = {
      ['by NACK, whose retry script says 0'] = function(m) c:ok('NACK ' .. m.tag) end,
      ['by NACK requeue'] = function(m) c:ok(('NACK %s requeue'):format(m.tag)) end,
      ['by NACK delay=0'] = function(m) c:ok(('NACK %s delay=0'):format(m.tag)) end,
    }
    for name, fail in pairs(ways) do
      it(name .. ' waits longer each time', function()
        declare('q', 'delivery-limit=0 retry=own')
        c:ok('PUB - q', 'x')
        -- The last gap is waited for by nobody.
        assert.is_true(storm(1, 9, fail) >= sum(1, 8))
        assert.equal(6, c:stats('q').paced)
      end)
    end

    it('waits a second at most', function()
      declare('q', 'delivery-limit=0')
      c:ok('PUB - q', 'x')
      storm(1, 11, function(m) c:ok(('NACK %s requeue'):format(m.tag)) end)
      local m = c:get('q wait=10s')[1]
      c:send(('NACK %s requeue\r\nPEEK q state=delayed\r\n'):format(m.tag))
      c:expect_line 'OK 1'
      local delayed = c:expect_json().messages
      assert.equal(1, #delayed)
      local held = c:get('q wait=10s')[1]
      assert.equal(13, held.attempt)
    end)

    it('because its consumers go away, waits too', function()
      declare 'q'
      c:ok('PUB - q', 'innocent')
      c:ok('PUB - q', 'guilty')
      -- Each consumer holds both. The first is charged; the other one comes back as if it had not been taken.
      for i = 1, 6 do
        local other = broker:connect()
        local messages = {}
        while #messages < 2 do
          for _, m in ipairs(other:get 'q max=2 wait=10s') do messages[#messages + 1] = m end
        end
        assert.same({ i, i }, { messages[1].attempt, messages[2].attempt })
        other:close()
        assert(wait.poll(function() return c:stats('q').unacked == 0 end))
        assert.equal(2 * math.max(0, i - IMMEDIATE), c:stats('q').paced)
      end
    end)

    it('after the third time, waits no less than the retry script says', function()
      declare('q', 'retry=own retry.delay=1h')
      c:ok('PUB - q', 'x')
      storm(1, 4, function(m) c:ok(('NACK %s requeue'):format(m.tag)) end)
      c:ok(('NACK %s'):format(c:get('q wait=10s')[1].tag))
      local m = c:peek('q state=delayed')[1]
      assert.is_true(m.due - m.ts >= 3600000)
      assert.equal(1, c:stats('q').paced)
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
      storm(1, 8, function(m) c:ok(('NACK %s requeue'):format(m.tag)) end)
      c:ok('PUB - q', 'good')
      local m = c:get('q wait=10s')[1]
      assert.is_true(m.payload == 'good' or m.attempt == 9)
      assert.equal(2, c:stats('q').ready + c:stats('q').delayed + c:stats('q').unacked)
    end)

    it('is counted over all queues', function()
      local before = c:document('STATS').paced
      declare('q', 'delivery-limit=0')
      c:ok('PUB - q', 'x')
      storm(1, 5, function(m) c:ok(('NACK %s requeue'):format(m.tag)) end)
      assert.equal(before + 2, c:document('STATS').paced)
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
    local deliveries = 0
    while deliveries < 5 * 80 do
      local messages = c:get 'q max=4 wait=10s'
      assert.is_true(#messages > 0)
      for _, m in ipairs(messages) do
        deliveries = deliveries + 1
        c:ok(('NACK %s %s'):format(m.tag, m.attempt < 5 and 'requeue' or 'delay=1h'))
      end
    end
    -- The fourth return of each, and no other, was paced.
    assert.equal(80, c:stats('q').paced)
    c:close()
    broker:kill9()
    broker:run()
    c = broker:connect()
    c:ok 'DECLARE queue one delivery-limit=0'
    c:ok('PUB - one', 'x')
    for _ = 1, 5 do c:ok(('NACK %s requeue'):format(c:get('one wait=10s')[1].tag)) end
    -- Redis has the attempts.
    c:ok('PUB - one', 'y')
    c:close()
    broker:kill9()
    broker:run()
    c = broker:connect()
    local m = c:get('one wait=10s')[1]
    assert.equal('x', m.payload)
    assert.equal(6, m.attempt)
    c:ok(('NACK %s requeue'):format(m.tag))
    assert.equal(1, c:stats('one').paced)
    c:close()
    broker:expect_clean_stop()
  end)
end)
