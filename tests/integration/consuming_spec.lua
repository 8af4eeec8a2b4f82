-- What becomes of a message in a queue: SUB, GET, ACK, NACK, TOUCH, the ack-timeout,
-- retries, dead letters, and looking at all of it.
local socket = require 'socket'
local Broker = require 'support.broker'
local Client = require 'support.client'
local users = require 'support.users'
local wait = require 'support.wait'

local ONE_OF = 'ERR syntax NACK takes only one of delay=, bury, dead and requeue; pri= and reason= may stand beside it'
local LOST = 'is no longer held: it was settled, timed out or its queue was deleted'

-- The whole file runs on a durable queue and on one in memory alone: what a
-- client sees is the same.
for _, durable in ipairs { '1', '0' } do
  describe(('a message in a queue with durable=%s'):format(durable), function()
    local broker, c

    setup(function() broker = Broker.start { args = { '--fsync', 'no' } } end)
    teardown(function() broker:expect_clean_stop() end)
    before_each(function() c = broker:enter_vhost() end)
    after_each(function() c:close() end)

    local function declare(name, options)
      c:ok(('DECLARE queue %s durable=%s %s'):format(name, durable, options or 'shards=1'))
    end
    local function peek(queue, state)
      return c:peek(('%s 100 state=%s'):format(queue, state))
    end
    local payloads = Client.payload_text

    describe('that is published', function()
      it('is given out as it was, with its facts', function()
        declare 'q'
        local id = c:ok('PUB - q pri=3 h:a=b', 'hello'):match '^(%x+) 1$'
        c:send 'SUB q s1\r\n'
        c:expect_line 'OK'
        local m = c:expect_msg()
        assert.equal(('MSG s1 1 1 - q id=%s ts=%s pri=3 h:a=b 5'):format(id, m.options.ts), m.line)
        assert.equal('hello', m.payload)
        assert.is_true(math.abs(tonumber(m.options.ts) / 1000 - os.time()) < 60)
        assert.equal('1', c:ok 'ACK 1')
        c:expect_answer('ACK 1', 'ERR lease-lost tag 1 ' .. LOST)
      end)

      it('counts its delay from when the request came, not from when the broker fell idle', function()
        declare 'q'
        c:ok 'SUB q s ack=auto'
        local function now_ms() return math.floor(socket.gettime() * 1000) end
        for _ = 1, 10 do
          -- The broker has looked at its clock for the last time before this.
          local idle = now_ms()
          assert(wait.poll(function() return now_ms() > idle + 1 end))
          local sent = now_ms()
          c:send 'PUB - q delay=20ms quiet 1\r\nx\r\n'
          c:expect_msg()
          assert.is_true(now_ms() >= sent + 20, 'it came early')
        end
      end)

      it('with a delay is delayed, and comes when it is due', function()
        declare 'q'
        c:ok('PUB - q delay=1h', 'later')
        c:ok('PUB - q delay=1000', 'soon')
        c:ok('PUB - q delay=0', 'now')
        local later = peek('q', 'delayed')
        later = later[#later]
        assert.equal('later', later.payload)
        assert.equal(3600000, later.due - later.ts)
        assert.equal('now', payloads(c:get 'q'))
        assert.equal('soon', payloads(c:get 'q wait=10s'))
        assert.same({}, c:get 'q')
      end)

      it('with a ttl is not given out after it', function()
        declare 'q'
        c:ok('PUB - q ttl=1', 'short')
        c:ok('PUB - q ttl=1h', 'long')
        assert.is_truthy(wait.poll(function()
          local seen = c:get 'q max=10'
          if #seen > 0 then c:ok(('NACK %s-%s requeue'):format(seen[1].tag, seen[#seen].tag)) end
          return payloads(seen) == 'long'
        end))
        assert.equal(1, c:stats('q').expired)
        local m = peek('q', 'ready')[1]
        assert.equal(3600000, m.expires - m.ts)
      end)

      it('refuses what is out of range', function()
        declare 'q'
        local duration = ': expected a duration like 250ms, 30s, 5m, 2h or 1d, from '
        for option, text in pairs {
          ['pri=-1'] = 'pri=-1: expected a number from 0 to 255',
          ['delay=soon'] = 'delay=soon' .. duration .. '0s to 3660d',
          ['delay=4000d'] = 'delay=4000d' .. duration .. '0s to 3660d',
          ['ttl=0'] = 'ttl=0' .. duration .. '1ms to 3660d',
        } do
          c:send(('PUB - q %s 1\r\nx\r\n'):format(option))
          c:expect_line('ERR syntax ' .. text)
        end
        assert.same({}, c:get 'q')
      end)

      it('comes in the order of publication', function()
        declare 'q'
        c:publish('q', 'a', 'b', 'c', 'd')
        assert.equal('a b', payloads(c:get 'q max=2'))
        assert.equal('c d', payloads(c:get 'q max=1000'))
      end)

      it('comes by its priority where the queue says so', function()
        declare('q', 'priority=strict')
        for _, pri in ipairs { 0, 5, 255, 5, 1 } do c:ok(('PUB - q pri=%d'):format(pri), 'p' .. pri) end
        local order = payloads(c:get 'q max=10')
        assert.equal('p255 p5 p5 p1 p0', order)
      end)

      it('comes without regard to its priority where the queue does not', function()
        declare 'q'
        for _, pri in ipairs { 0, 5, 1 } do c:ok(('PUB - q pri=%d'):format(pri), 'p' .. pri) end
        assert.equal('p0 p5 p1', payloads(c:get 'q max=10'))
      end)
    end)

    describe('that is subscribed to', function()
      it('comes up to the prefetch, and more with each ack', function()
        declare 'q'
        c:publish('q', '1', '2', '3', '4', '5')
        c:send 'SUB q s prefetch=2\r\n'
        c:expect_line 'OK'
        c:expect_msg()
        c:expect_msg()
        c:expect_nothing()
        assert.equal(3, c:stats('q').ready)
        c:send 'ACK 1\r\n'
        local lines = { c:read_line(), c:read_line() }
        if lines[1] ~= 'OK 1' then lines[1], lines[2] = c:read_line(), lines[1] else lines[3] = c:read_line() end
        assert.equal('OK 1', lines[1])
        assert.is_truthy(lines[2]:find '^MSG s 3 1 ')
        c:expect_nothing()
        assert.equal('2', c:ok 'NACK 2-3 delay=1h')
        c:expect_msg()
        c:expect_msg()
        c:expect_nothing()
      end)

      it('needs no ack with ack=auto', function()
        declare 'q'
        c:publish('q', '1', '2', '3')
        c:send 'SUB q s prefetch=1 ack=auto\r\n'
        c:expect_line 'OK'
        for i = 1, 3 do
          local m = c:expect_msg()
          assert.equal('-', m.tag)
          assert.equal(tostring(i), m.payload)
        end
        local s = c:stats 'q'
        assert.equal(0, s.ready + s.unacked)
        assert.equal(3, s.acked)
        c:expect_answer('ACK 1', 'ERR not-found tag 1 was never given out on this channel')
      end)

      it('is dealt round robin', function()
        declare 'q'
        local other = broker:connect()
        c:ok 'SUB q s1'
        c:ok 'SUB q s2'
        other:ok 'SUB q s1'
        local seen = {}
        for i = 1, 9 do
          other:send(('PUB - q 1\r\n%d\r\n'):format(i))
        end
        for _ = 1, 6 do
          local m = c:expect_msg()
          seen[m.sid] = (seen[m.sid] or 0) + 1
        end
        assert.same({ s1 = 3, s2 = 3 }, seen)
        other:close()
      end)

      it('goes to those who have credit left', function()
        declare 'q'
        c:ok 'SUB q full prefetch=1'
        c:send 'PUB - q quiet 1\r\nx\r\n'
        c:expect_msg()
        c:ok 'SUB q other prefetch=10'
        for _ = 1, 3 do
          c:send 'PUB - q quiet 1\r\nx\r\n'
          assert.equal('other', c:expect_msg().sid)
        end
      end)

      it('comes no more after UNSUB, and what is held stays', function()
        declare 'q'
        c:publish('q', 'a', 'b')
        c:send 'SUB q s prefetch=1\r\n'
        c:expect_line 'OK'
        c:expect_msg()
        c:ok 'UNSUB s'
        c:expect_answer('UNSUB s', "ERR not-found this channel has no subscription 's'")
        assert.equal('1', c:ok 'ACK 1')
        c:expect_nothing()
        assert.equal(1, c:stats('q').ready)
      end)

      it('never comes before the OK of the SUB', function()
        declare 'q'
        for _ = 1, 50 do
          c:send 'PUB - q 1\r\nx\r\nSUB q s ack=auto\r\nUNSUB s\r\nSUB q s ack=auto\r\n'
          local subscribed, received = 0, 0
          while subscribed < 4 or received < 1 do
            local line = c:read_line()
            if line:find '^MSG' then
              assert.is_true(subscribed == 2 or subscribed == 4, 'a message after ' .. subscribed .. ' answers')
              c:expect_payload(1)
              received = received + 1
            else
              subscribed = subscribed + 1
            end
          end
          c:ok 'UNSUB s'
        end
      end)

      it('has a sid that is unique in the channel', function()
        declare 'q'
        c:ok 'SUB q s'
        c:expect_answer('SUB q s', "ERR exists this channel has a subscription 's' already")
        c:send '@1 OPEN\r\n@1 SUB q s\r\n'
        c:expect_line '@1 OK'
        c:expect_line '@1 OK'
        c:expect_answer('SUB nobody s2', "ERR not-found there is no queue 'nobody' in vhost '" .. broker.vhost .. "'")
        c:expect_answer('SUB q s2 prefetch=0', 'ERR syntax prefetch=0: expected a number from 1 to 65535')
        c:expect_answer('SUB q s2 prefetch=65536', 'ERR syntax prefetch=65536: expected a number from 1 to 65535')
        c:expect_answer('SUB q s2 ack=never', 'ERR syntax ack=never: expected manual or auto')
        local consumers = c:document 'LIST consumers'
        assert.equal(2, #consumers)
        assert.equal('s', consumers[1].sid)
        assert.equal('subscription', consumers[1].kind)
        assert.equal(100, consumers[1].prefetch)
      end)

      it('is listed with who it is: the name, the user and the address of its connection', function()
        declare 'q'
        local worker = users.stranger(broker)
        worker:document('HELLO name=worker-7 vhost=' .. broker.vhost)
        worker:ok 'SUB q s'
        worker:send '@1 OPEN\r\n@1 GET q wait=1h\r\n'
        worker:expect_line '@1 OK'
        assert(wait.poll(function() return #c:document 'LIST consumers' == 2 end))
        local connection = c:document('LIST connections match=worker-7')[1]
        for _, consumer in ipairs(c:document 'LIST consumers') do
          assert.same({ connection.connection, 'worker-7', '', connection.peer },
            { consumer.connection, consumer.name, consumer.user, consumer.peer })
        end
        assert.truthy(connection.peer:find '^127%.0%.0%.1:%d+$')
        worker:close()
      end)
    end)

    describe('that is got', function()
      it('is there, or not', function()
        declare 'q'
        assert.same({}, c:get 'q')
        c:publish('q', 'a')
        local m = c:get('q')[1]
        assert.equal('-', m.sid)
        assert.equal('1', m.tag)
        c:expect_answer('GET q max=0', 'ERR syntax max=0: expected a number from 1 to 1000')
        c:expect_answer('GET q max=1001', 'ERR syntax max=1001: expected a number from 1 to 1000')
        c:expect_answer('GET q wait=2h', 'ERR syntax wait=2h: expected a duration like 250ms, 30s, 5m, 2h or 1d, '
          .. 'from 0s to 1h')
        c:expect_answer('GET nobody', "ERR not-found there is no queue 'nobody' in vhost '" .. broker.vhost .. "'")
      end)

      it('is waited for, while the channel holds its answers back', function()
        declare 'q'
        c:send 'GET q wait=1h\r\nPING\r\n@1 OPEN\r\n'
        c:expect_line '@1 OK'
        local other = broker:connect()
        assert.is_truthy(wait.poll(function()
          local list = other:document 'LIST consumers'
          return #list == 1 and list[1].kind == 'get'
        end))
        other:ok('PUB - q', 'x')
        c:expect_line 'OK 1'
        assert.equal('x', c:expect_msg().payload)
        c:expect_line 'OK'
        other:close()
      end)

      it('is waited for until the time is over', function()
        declare 'q'
        c:send 'GET q wait=20ms\r\nPING\r\n'
        c:expect_line 'OK 0'
        c:expect_line 'OK'
      end)

      it('is given to those who wait in their order', function()
        declare 'q'
        local others = {}
        for i = 1, 3 do
          others[i] = broker:connect()
          others[i]:send '@1 OPEN\r\n@1 GET q wait=1h\r\nPING\r\n'
          others[i]:expect_line '@1 OK'
          others[i]:expect_line 'OK'
        end
        c:publish('q', '1', '2', '3')
        for i = 1, 3 do
          others[i]:expect_line '@1 OK 1'
          assert.equal(tostring(i), others[i]:expect_msg(nil, 1).payload)
          others[i]:close()
        end
      end)

      it('is taken before what the channel asks next is done', function()
        declare 'q'
        c:publish('q', 'a', 'b')
        c:send 'GET q\r\nACK 1\r\nGET q ack=auto\r\nGET q\r\nPUB - q quiet 1\r\nx\r\nPURGE q\r\n'
        c:expect_line 'OK 1'
        assert.equal('a', c:expect_msg().payload)
        c:expect_line 'OK 1'
        c:expect_line 'OK 1'
        assert.equal('b', c:expect_msg().payload)
        c:expect_line 'OK 0'
        c:expect_line 'OK 1'
      end)
    end)

    describe('that is settled', function()
      it('is named by tags and ranges', function()
        declare 'q'
        c:publish('q', '1', '2', '3', '4', '5', '6', '7')
        c:get 'q max=7'
        assert.equal('1', c:ok 'ACK 2')
        assert.equal('3', c:ok 'ACK 1-3 5')
        c:expect_answer('ACK 1-3', 'ERR lease-lost tag 1 ' .. LOST)
        c:expect_answer('ACK 4 5', 'ERR lease-lost tag 5 ' .. LOST)
        c:expect_answer('ACK 8', 'ERR not-found tag 8 was never given out on this channel')
        c:expect_answer('ACK 0', 'ERR not-found tag 0 was never given out on this channel')
        c:expect_answer('ACK 4 99', 'ERR not-found tag 99 was never given out on this channel')
        assert.equal(3, c:stats('q').unacked)
        assert.equal('3', c:ok 'ACK 1-1000000')
        assert.equal(0, c:stats('q').unacked)
      end)

      it('is named by words that are tags', function()
        for _, word in ipairs { '1-', '3-1', '1-2-3', '1x', '99999999999999999999' } do
          c:expect_answer('ACK ' .. word,
            ("ERR syntax '%s' is not a tag: expected numbers, or ranges like 3-7"):format(word))
        end
        c:expect_answer('ACK', 'ERR syntax ACK needs tags: numbers, or ranges like 3-7')
        c:expect_answer('ACK x', 'ERR syntax ACK needs tags: numbers, or ranges like 3-7')
        c:expect_answer('NACK 1 dead requeue', ONE_OF)
        c:expect_answer('NACK 1 dead delay=1s', ONE_OF)
        c:expect_answer('TOUCH 1 for=1ms', 'ERR syntax for=1ms: expected a duration like 250ms, 30s, 5m, 2h or 1d, '
          .. 'from 10ms to 1d')
      end)

      it('by NACK comes again, as the retry script says', function()
        declare 'q'
        c:publish('q', 'a')
        c:get 'q'
        assert.equal('1', c:ok 'NACK 1')
        local m = c:get('q')[1]
        assert.equal('2', m.tag)
        assert.equal(2, m.attempt)
        assert.is_true(m.redelivered)
        c:ok 'NACK 2 requeue'
        c:ok('PUB - q', 'b')
        assert.equal('a b', payloads(c:get 'q max=2'))
        c:ok 'NACK 3 delay=1h'
        local later = peek('q', 'delayed')[1]
        assert.equal(2, later.failures)
        assert.equal(3, later.deliveries)
        assert.equal('nack', later.reason)
        assert.same({ 3, 1 }, { c:stats('q').nacked, c:stats('q').returned })
      end)

      it('keeps its place in the queue when it is returned', function()
        declare 'q'
        c:publish('q', 'a', 'b', 'c', 'd')
        c:get 'q max=3'
        c:ok 'NACK 2 requeue'
        c:ok 'NACK 3 requeue'
        c:ok 'NACK 1 requeue'
        assert.equal('a b c d', payloads(c:get 'q max=4'))
      end)

      it('by NACK with exponential backoff waits longer each time, up to the cap', function()
        declare('q', 'retry=exponential retry.base=1m retry.factor=3 retry.cap=20m')
        for failures, delay in ipairs { 60000, 180000, 540000, 1200000, 1200000 } do
          c:publish('q', 'x')
          for _ = 2, failures do c:ok(('NACK %s delay=0'):format(c:get('q wait=10s')[1].tag)) end
          c:send(('NACK %s\r\nPEEK q 100 state=delayed\r\n'):format(c:get('q wait=10s')[1].tag))
          c:expect_line 'OK 1'
          local list = c:expect_json().messages
          local m = list[#list]
          assert.equal(failures, m.failures)
          assert.is_true(m.due - m.ts >= delay and m.due - m.ts < delay + 30000, failures .. ' ' .. m.due - m.ts)
          c:ok 'PURGE q'
        end
      end)

      it('waits by a timetable that doubles up to its cap', function()
        declare('q', 'retry=exponential retry.base=10ms retry.factor=2 retry.cap=40ms retry.max=6')
        c:publish('q', 'a')
        local at_least = { 10, 20, 40, 40, 40 }
        for attempt = 1, 5 do
          local m = c:get('q wait=10s')[1]
          assert.equal(attempt, m.attempt)
          local before = c:stats('q').delayed
          assert.equal(0, before)
          c:send(('NACK %s\r\nPEEK q state=delayed\r\n'):format(m.tag))
          c:expect_line 'OK 1'
          local seen = c:expect_json().messages[1]
          if seen then -- a slow machine may find it due already
            assert.equal(attempt, seen.failures)
            assert.is_true(seen.due >= seen.ts + at_least[attempt])
          end
        end
        -- The sixth failure is one too many.
        local m = c:get('q wait=10s')[1]
        c:ok('NACK ' .. m.tag)
        local buried = peek('q', 'buried')[1]
        assert.equal(6, buried.failures)
      end)

      it('by TOUCH has more time', function()
        declare('q', 'ack-timeout=1h')
        c:publish('q', 'a', 'b')
        c:get 'q max=2'
        -- That of the oldest has begun; for the other it is said how long it will be.
        local function expect(first, second)
          local held = peek('q', 'unacked')
          local left = held[1].holder['until'] - held[1].ts
          assert.is_true(left >= first - 1000 and left < first + 60000) -- two clocks
          assert.same({ nil, second }, { held[2].holder['until'], held[2].holder.lease_ms })
        end
        expect(3600000, 3600000)
        assert.equal('1', c:ok 'TOUCH 1 for=2h')
        expect(7200000, 3600000)
        assert.equal('2', c:ok 'TOUCH 1-2 for=10m')
        expect(600000, 600000)
        assert.equal('1', c:ok 'TOUCH 1')
        expect(3600000, 600000)
        c:ok 'ACK 1'
        local left = peek('q', 'unacked')[1]
        assert.is_true(left.holder['until'] - left.ts >= 599000)
        c:expect_answer('TOUCH 1', 'ERR lease-lost tag 1 ' .. LOST)
      end)

      it('is lost when the ack-timeout has passed', function()
        declare('q', 'ack-timeout=10ms')
        c:publish('q', 'a')
        local first = c:get('q')[1]
        local second = c:get('q wait=10s')[1]
        assert.equal(first.options.id, second.options.id)
        assert.equal(2, second.attempt)
        assert.is_true(second.redelivered)
        c:expect_answer('NACK 1', 'ERR lease-lost tag 1 ' .. LOST)
        c:expect_answer('TOUCH 1', 'ERR lease-lost tag 1 ' .. LOST)
        assert.is_true(c:stats('q').timed_out >= 1)
      end)

      it('gives its credit back when the ack-timeout has passed', function()
        declare('q', 'ack-timeout=10ms delivery-limit=3')
        c:publish('q', 'a')
        c:send 'SUB q s prefetch=1\r\n'
        c:expect_line 'OK'
        for attempt = 1, 3 do assert.equal(attempt, c:expect_msg().attempt) end
        assert.is_truthy(wait.poll(function() return c:stats('q').buried == 1 end))
        local m = peek('q', 'buried')[1]
        assert.equal('timeout', m.reason)
        assert.equal(3, m.failures)
      end)
    end)

    describe('that has failed', function()
      it('too often is dead-lettered, and says why', function()
        declare 'dead'
        declare('q', 'delivery-limit=2 dead-letter=-/dead')
        c:ok('PUB - q h:kept=yes pri=4 ttl=1h', 'a')
        for _ = 1, 2 do c:ok('NACK ' .. c:get('q')[1].tag .. ' delay=0') end
        local m = c:get('dead wait=10s')[1]
        assert.equal('a', m.payload)
        assert.equal(1, m.attempt)
        assert.equal('4', m.options.pri)
        for _, name in ipairs { 'time', 'first-time', 'first-id' } do
          assert.is_string(m.headers['x-death-' .. name])
          m.headers['x-death-' .. name] = nil
        end
        assert.same({
          kept = 'yes', ['x-death-reason'] = 'nack', ['x-death-queue'] = 'q', ['x-death-exchange'] = '-',
          ['x-death-key'] = 'q', ['x-death-attempts'] = '2', ['x-death-rule'] = 'delivery-limit',
          ['x-death-first-reason'] = 'nack', ['x-death-first-queue'] = 'q', ['x-death-first-exchange'] = '-',
          ['x-death-first-key'] = 'q', ['x-death-total'] = '1', ['x-death-counts'] = '1:nack:q',
        }, m.headers)
        assert.is_truthy(wait.poll(function()
          local s = c:stats 'q'
          return s.ready + s.delayed + s.unacked + s.buried == 0 and s.dead_lettered == 1
        end))
      end)

      it('goes through the dead-letter exchange, with its own key where no other is given', function()
        c:ok 'DECLARE exchange graveyard topic'
        declare 'dead'
        c:ok 'BIND dead graveyard q.*'
        declare('q.1', 'dead-letter=graveyard')
        c:publish('q.1', 'a')
        c:get 'q.1'
        c:ok 'NACK 1 dead'
        local m = c:get('dead wait=10s')[1]
        assert.equal('graveyard', m.exchange)
        assert.equal('q.1', m.key)
        assert.equal('rejected', m.headers['x-death-reason'])
        assert.equal('consumer', m.headers['x-death-rule'])
      end)

      it('is dead-lettered by the retry script too', function()
        declare 'dead'
        declare('q', 'retry.max=2 dead-letter=-/dead')
        c:publish('q', 'a')
        for _ = 1, 2 do c:ok('NACK ' .. c:get('q')[1].tag) end
        local m = c:get('dead wait=10s')[1]
        assert.equal('retry/immediate.lua', m.headers['x-death-rule'])
      end)

      it('by its ttl is dead-lettered where there is a target', function()
        declare 'dead'
        declare('q', 'dead-letter=-/dead')
        c:ok('PUB - q ttl=1ms', 'a')
        c:send 'SUB q s\r\n'
        c:expect_line 'OK'
        local m
        assert.is_truthy(wait.poll(function()
          c:send 'GET dead\r\n'
          local line = c:read_line()
          if line:find '^MSG s' then -- it was quicker than a millisecond
            c:expect_payload(1)
            line = c:expect '^OK %d$'
            c:ok 'UNSUB s'
            c:ok 'NACK 1-9 requeue'
            c:ok 'SUB q s'
          end
          if line ~= 'OK 1' then return false end
          m = c:expect_msg()
          return true
        end))
        assert.equal('expired', m.headers['x-death-reason'])
        assert.is_nil(m.options.expires)
      end)

      it('is buried without a target', function()
        declare 'q'
        c:publish('q', 'a', 'b', 'c')
        c:get 'q max=3'
        assert.equal('3', c:ok 'NACK 1-3 dead')
        assert.equal(3, c:stats('q').buried)
        assert.same({}, c:get 'q')
        local m = peek('q', 'buried')[1]
        assert.equal('rejected', m.reason)
        assert.equal('buried', m.state)
        assert.equal('1', c:ok 'KICK q 1')
        local kicked = c:get('q')[1]
        assert.equal('a', kicked.payload)
        assert.equal(1, kicked.attempt)
        assert.equal('2', c:ok 'KICK q')
        assert.equal('b c', payloads(c:get 'q max=10'))
        assert.equal('0', c:ok 'KICK q')
        c:expect_answer('KICK q 0', "ERR syntax '0': expected a number from 1 to 18446744073709551614")
      end)

      it('is buried when no queue takes it', function()
        declare('q', 'dead-letter=-/nobody')
        declare('q2', 'dead-letter=nowhere/k')
        for _, queue in ipairs { 'q', 'q2' } do
          c:publish(queue, 'a')
          c:ok(('NACK %s dead'):format(c:get(queue)[1].tag))
          assert.is_truthy(wait.poll(function() return c:stats(queue).buried == 1 end))
        end
      end)

      it('is dead-lettered into its own queue', function()
        declare('q', 'dead-letter=-/q')
        c:publish('q', 'a')
        c:get 'q'
        c:ok 'NACK 1 dead'
        local m = c:get('q wait=10s')[1]
        assert.equal(1, m.attempt)
        assert.equal('q', m.headers['x-death-queue'])
        assert.same({}, c:get 'q')
      end)

      it('without limit never is', function()
        declare('q', 'delivery-limit=0')
        c:publish('q', 'a')
        for i = 1, 6 do
          local m = c:get('q wait=10s')[1]
          assert.equal(i, m.attempt)
          c:ok(('NACK %s delay=0'):format(m.tag))
        end
        assert.same({ 0, 0 }, { c:stats('q').buried, c:stats('q').dead_lettered })
      end)
    end)

    describe('whose consumer goes away', function()
      it('comes back; the first is charged, the others are not', function()
        declare 'q'
        c:publish('q', 'a', 'b', 'c')
        local other = broker:connect()
        other:send 'SUB q s\r\n'
        other:expect_line 'OK'
        for _ = 1, 3 do other:expect_msg() end
        other:close()
        assert.is_truthy(wait.poll(function() return c:stats('q').ready == 3 end))
        local seen = {}
        for i, m in ipairs(peek('q', 'ready')) do
          seen[i] = ('%s deliveries=%d failures=%d %s'):format(m.payload, m.deliveries, m.failures, m.reason)
        end
        assert.same({ 'a deliveries=1 failures=1 gone', 'b deliveries=1 failures=0 nil',
          'c deliveries=1 failures=0 nil' }, seen)
        local messages = c:get 'q max=10'
        assert.equal('a b c', payloads(messages))
        for i, m in ipairs(messages) do
          assert.equal(i == 1 and 2 or 1, m.attempt)
          assert.is_true(m.redelivered)
        end
      end)

      it('is charged once for each of the channel\'s consumers', function()
        declare 'q'
        c:publish('q', '1', '2', '3', '4', '5')
        local d = broker:connect()
        d:send '@1 OPEN\r\n@1 SUB q a prefetch=2\r\n'
        d:expect_line '@1 OK'
        d:expect_line '@1 OK'
        for _ = 1, 2 do d:expect_msg(nil, 1) end
        for _ = 1, 2 do
          d:send '@1 GET q\r\n'
          d:expect_line '@1 OK 1'
          d:expect_msg(nil, 1)
        end
        d:send '@1 SUB q b prefetch=1\r\n'
        d:expect_line '@1 OK'
        d:expect_msg(nil, 1)
        d:send '@1 UNSUB a\r\n'
        d:expect_line '@1 OK'
        d:close()
        assert.is_truthy(wait.poll(function() return c:stats('q').ready == 5 end))
        local failures = {}
        for _, m in ipairs(peek('q', 'ready')) do failures[#failures + 1] = m.failures end
        assert.same({ 1, 0, 1, 0, 1 }, failures)
        assert.equal('1 2 3 4 5', payloads(c:get 'q max=9'))
      end)
    end)

    describe('that is looked at', function()
      it('stays where it is', function()
        declare('q', 'ack-timeout=1h')
        c:publish('q', 'text', '\xff\xfe\0')
        c:ok('PUB - q h:a=%00b pri=3 delay=1h', '')
        local ready = peek('q', 'ready')
        assert.equal(2, #ready)
        assert.equal('text', ready[1].payload)
        assert.equal(4, ready[1].size)
        assert.equal('-', ready[1].exchange)
        assert.equal('q', ready[1].key)
        assert.equal(0, ready[1].deliveries)
        assert.equal('//4A', ready[2].payload_base64)
        local delayed = peek('q', 'delayed')
        assert.equal(1, #delayed)
        assert.equal('\0b', delayed[1].headers.a)
        assert.equal(3, delayed[1].priority)
        assert.equal('', delayed[1].payload)
        c:get 'q'
        local unacked = peek('q', 'unacked')
        assert.equal(1, #unacked)
        assert.equal(1, unacked[1].deliveries)
        assert.equal('unacked', unacked[1].state)
        assert.equal(1, #c:peek 'q')
        c:expect_answer('PEEK q 0', "ERR syntax '0': expected a number from 1 to 100")
        c:expect_answer('PEEK q 101', "ERR syntax '101': expected a number from 1 to 100")
        c:expect_answer('PEEK q state=lost', 'ERR syntax state=lost: expected ready, delayed, unacked or buried')
        c:expect_answer('PEEK nobody', "ERR not-found there is no queue 'nobody' in vhost '" .. broker.vhost .. "'")
      end)

      it('is counted', function()
        declare 'q'
        c:publish('q', '1', '2', '3', '4')
        c:ok('PUB - q delay=1h', '5')
        c:get 'q max=2'
        c:ok 'NACK 1 dead'
        local s = c:stats 'q'
        assert.same({ 2, 1, 1, 1, 5, 2, 0, 0, 1 },
          { s.ready, s.delayed, s.unacked, s.buried, s.published, s.delivered, s.redelivered, s.acked, s.nacked })
        local all = c:document 'STATS'
        assert.equal('embedded', all.store.kind)
        assert.is_true(all.published >= 5)
        assert.equal('up', all.store.state)
        c:expect_answer('STATS nobody', "ERR not-found there is no queue 'nobody' in vhost '" .. broker.vhost .. "'")
      end)
    end)

    it('is purged in any state but unacked', function()
      declare 'q'
      c:publish('q', '1', '2', '3')
      c:ok('PUB - q delay=1h', '4')
      c:get 'q max=2'
      c:ok 'NACK 1 dead'
      assert.equal('3', c:ok 'PURGE q')
      local s = c:stats 'q'
      assert.same({ 0, 0, 1, 0 }, { s.ready, s.delayed, s.unacked, s.buried })
      assert.equal('1', c:ok 'ACK 2')
      assert.equal('0', c:ok 'PURGE q')
      c:expect_answer('PURGE nobody', "ERR not-found there is no queue 'nobody' in vhost '" .. broker.vhost .. "'")
      c:publish('q', 'after')
      assert.equal('after', payloads(c:get 'q'))
    end)

    it('is settled in bulk across shards', function()
      declare('q', 'shards=8 sharding=round_robin')
      for i = 1, 100 do c:send(('PUB - q quiet %d\r\n%d\r\n'):format(#tostring(i), i)) end
      c:expect_nothing()
      local messages = c:get 'q max=1000'
      assert.equal(100, #messages)
      assert.equal('50', c:ok 'NACK 1-50 dead')
      assert.equal('50', c:ok 'ACK 51-100')
      assert.equal('50', c:ok 'KICK q')
      assert.equal(50, #c:get 'q max=1000')
      assert.equal('50', c:ok 'NACK 101-150 requeue')
      assert.equal('50', c:ok 'PURGE q')
    end)
  end)
end
