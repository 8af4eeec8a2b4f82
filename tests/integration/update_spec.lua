-- DECLARE ... update: other options for a queue or a topic that is in use.
local Broker = require 'support.broker'
local Http = require 'support.http'
local Stomp = require 'support.stomp'
local traffic = require 'support.traffic'
local wait = require 'support.wait'

describe('update', function()
  local broker, c

  local function always(shard) return ('return { pick = function() return %d end }\n'):format(shard) end

  setup(function()
    broker = Broker.start {
      rules = { ['sharding/always.lua'] = always(1) },
      args = { '--window-messages', '16', '--fsync', 'no' },
      http = '127.0.0.1:0',
    }
  end)
  teardown(function() broker:destroy() end)
  before_each(function() c = broker:enter_vhost() end)
  after_each(function() c:close() end)

  local function reconnect()
    c:close()
    c = broker:connect()
  end

  --- A Redis that a killed broker left may be about to end.
  local function renew_redis()
    broker:restart()
    reconnect()
  end

  --- What LIST says of the queue's options.
  local function options(kind) return c:document('LIST ' .. (kind or 'queues'))[1].options end

  local function publish(count)
    traffic.publish(c, 'q', count, function(i) return tostring(i) end)
  end

  it('changes what is given and keeps the rest', function()
    c:ok 'DECLARE queue q ttl=1h retry=fixed retry.delay=5s'
    c:ok 'DECLARE queue q max-length=5 update'
    assert.same({ ttl = '1h', retry = 'fixed', ['retry.delay'] = '5s', ['max-length'] = '5' }, options())
    c:ok 'DECLARE queue q ttl= retry.delay=1000 update'
    assert.same({ retry = 'fixed', ['retry.delay'] = '1000', ['max-length'] = '5' }, options())
    c:ok 'DECLARE queue q retry=exponential update'
    assert.same({ retry = 'exponential', ['max-length'] = '5' }, options())
    c:ok 'DECLARE queue q max-length=5 retry=exponential'
    c:ok 'DECLARE queue q update'
    assert.same({ retry = 'exponential', ['max-length'] = '5' }, options())
  end)

  it('makes nothing by a wrong name', function()
    for _, what in ipairs { 'queue jbos', 'topic jbos', 'exchange jbos topic' } do
      local kind = what:match '^%a+'
      c:expect_answer('DECLARE ' .. what .. ' update',
        ("ERR not-found there is no %s 'jbos' to update in vhost '%s'; DECLARE without update makes one")
          :format(kind, broker.vhost))
      assert.same({}, c:document('LIST ' .. kind .. 's'))
      local asked = 'RULES simulate declare name=jbos kind=' .. kind .. (kind == 'exchange' and ' type=topic' or '')
      assert.matches('^there is no ' .. kind .. " 'jbos' to update in vhost ", c:document(asked .. ' update=1').error)
    end
    c:ok 'DECLARE queue q ttl=1h update=0'
    assert.same({ ttl = '1h' }, options())
  end)

  it('changes everything or nothing', function()
    c:ok 'DECLARE queue q ttl=1h'
    for words, answer in pairs {
      ['max-length=5 durable=0'] =
        "^ERR mismatch queue 'q' cannot change so: it keeps durable=1, because messages do not move between memory " ..
        'and Redis; declare a queue of another name$',
      ['max-length=5 retry.max=soon'] = "^ERR mismatch retry=immediate: option 'max' of .* must be .*, not 'soon'$",
      ['max-length=5 retry=none.such'] = '^ERR not%-found retry=none%.such: there is no retry script',
      ['max-length=5 retry=fixed retry.mox=1'] = "^ERR mismatch retry=fixed: .* has no option 'mox'",
      ['max-length=5 ttll=1h'] = "^ERR syntax a queue has no option 'ttll'; it takes: .* update and",
      ['max-length=5 ttll='] = "^ERR syntax a queue has no option 'ttll'",
      ['max-length=5 retention=1d'] = "^ERR syntax 'retention' is an option of topics",
      ['max-length=5 overflow=dead-letter'] = '^ERR syntax overflow=dead%-letter needs',
      ['max-length=5 order-by=key'] = '^ERR mismatch .* it keeps order%-by=%(none%), because ',
      ['max-length=5 dedupe=queued'] = '^ERR mismatch .* it keeps dedupe=%(none%), because ',
    } do
      assert.matches(answer, c:request('DECLARE queue q ' .. words .. ' update'))
    end
    assert.matches('^ERR syntax update=2: expected 0 or 1', c:request 'DECLARE queue q update=2')
    assert.same({ ttl = '1h' }, options())
  end)

  it('survives a restart', function()
    c:ok 'DECLARE queue q ttl=1h retry=fixed'
    publish(50)
    c:ok 'DECLARE queue q ttl= retry=exponential retry.max=3 rate=1000/s update'
    broker:restart()
    reconnect()
    assert.same({ retry = 'exponential', ['retry.max'] = '3', rate = '1000/s' }, options())
    assert.equal(50, c:stats('q').ready)
  end)

  it('has the old options or the new ones after kill -9 at any moment', function()
    c:ok 'DECLARE queue q max-length=1000 delivery-limit=1'
    publish(20)
    for round = 2, 9 do
      local other = broker:connect()
      other:send(('DECLARE queue q max-length=%d000 delivery-limit=%d update\r\n'):format(round, round))
      if round % 2 == 0 then other:expect_line 'OK' end
      if round % 4 < 2 then broker:kill9() else broker:kill9_all() end
      other:close()
      broker:run()
      reconnect()
      local has = options()
      local n = tonumber(has['delivery-limit'])
      assert.equal(n .. '000', has['max-length'])
      assert.is_true(n == round or (round % 2 == 1 and n == round - 1), 'round ' .. round .. ' has ' .. n)
      assert.equal(20, c:stats('q').ready)
    end
    renew_redis()
  end)

  it('is refused while Redis refuses it', function()
    c:ok 'DECLARE queue q ttl=1h'
    publish(3)
    broker:redis_cli('CONFIG', 'SET', 'maxmemory', '1')
    local answer = c:request 'DECLARE queue q ttl=2h update'
    broker:redis_cli('CONFIG', 'SET', 'maxmemory', '0')
    assert.matches('^ERR store ', answer)
    assert.same({ ttl = '1h' }, options())
    c:ok 'DECLARE queue q ttl=2h update'
    assert.same({ ttl = '2h' }, options())
  end)

  describe('while Redis has not answered about the last DECLARE', function()
    local pid

    --- What it sent is being worked on; another channel tells.
    local function is_read(client)
      client:send '@9 OPEN\r\n@9 CLOSE\r\n'
      client:expect_line '@9 OK'
      client:expect_line '@9 OK'
    end

    --- What `work` sends waits for Redis.
    local function held_up(work)
      pid = broker:redis_pid()
      os.execute('kill -STOP ' .. pid)
      local ok, why = pcall(work)
      os.execute('kill -CONT ' .. pid)
      assert(ok, why)
    end

    it('waits for it, in the order of the requests', function()
      c:send(table.concat {
        'DECLARE queue q ttl=1h\r\n',
        'DECLARE queue q ttl=2h max-length=5 update\r\n',
        'DECLARE queue q ttl=2h max-length=5\r\n',
        'DECLARE queue q ttl= retry=fixed update\r\n',
        'DECLARE queue q retry.delay=soon update\r\n',
        'DECLARE queue q retry.delay=5s dead-letter=-/nowhere update\r\n',
        'PING\r\n',
        'DECLARE queue q shards=4 retry=fixed retry.delay=5s max-length=5 dead-letter=-/nowhere reshard\r\n',
        'DECLARE queue q ttl=2h max-length=5\r\n',
      })
      for _ = 1, 4 do c:expect_line 'OK' end
      c:expect "^ERR mismatch retry=fixed: option 'delay' of .* must be .*, not 'soon'$"
      c:expect '^OK warning dead%-letter=%-/nowhere: '
      c:expect_line 'OK'
      c:expect '^OK warning dead%-letter=%-/nowhere: '
      c:expect "^ERR mismatch queue 'q' exists with other options: it has "
      assert.same({ shards = '4', retry = 'fixed', ['retry.delay'] = '5s', ['max-length'] = '5',
        ['dead-letter'] = '-/nowhere' }, options())
    end)

    it('waits for that of others, and holds nobody up', function()
      c:ok 'DECLARE queue q ttl=1h'
      local other = broker:connect()
      held_up(function()
        c:send 'DECLARE queue q ttl=2h update\r\nDECLARE queue q rate=5/s update\r\n'
        is_read(c)
        other:send 'DECLARE queue q ttl=3h update\r\n@1 OPEN\r\n@1 DECLARE queue q ttl=1h\r\n@1 PING\r\n'
        for _ = 1, 3 do other:expect_line '@1 OK' end
        is_read(other)
      end)
      c:expect_line 'OK'
      c:expect_line 'OK'
      other:expect_line 'OK'
      other:close()
      assert.same({ ttl = '3h', rate = '5/s' }, options())
    end)

    it('waits over HTTP and STOMP, too', function()
      c:ok 'DECLARE queue q ttl=1h'
      local http, other, vhost = Http.connect(broker), broker:connect(), broker.vhost
      broker.vhost = nil
      local stomp = Stomp.connect(broker, { host = vhost })
      broker.vhost = vhost
      local function is_waiting(protocol)
        for _, one in ipairs(other:document 'LIST connections') do
          if one.protocol == protocol and one.pending > 0 then return true end
        end
      end
      held_up(function()
        c:send 'DECLARE queue q ttl=2h update\r\n'
        is_read(c)
        http:send('PUT', '/api/vhosts/' .. vhost .. '/queues/q', { options = { rate = '5/s' }, update = true })
        assert.is_true(wait.poll(function() return is_waiting 'http' end))
        stomp:frame('SUBSCRIBE', { id = 's', destination = '/queue/q', receipt = 'r', ['x-message-ttl'] = '2h',
          ['x-rate'] = '5/s' })
        assert.is_true(wait.poll(function() return is_waiting 'stomp' end))
      end)
      c:expect_line 'OK'
      assert.equal(200, http:answer().status)
      stomp:expect('RECEIPT', { ['receipt-id'] = 'r' })
      for _, one in ipairs { http, stomp, other } do one:close() end
      assert.same({ ttl = '2h', rate = '5/s' }, options())
    end)

    it('is refused when it was deleted before its turn, also when it is back', function()
      c:ok 'DECLARE queue q ttl=1h'
      held_up(function()
        c:send 'DECLARE queue q ttl=2h update\r\nDECLARE queue q ttl=3h update\r\nDELETE queue q\r\n'
        c:send 'DECLARE queue q ttl=4h\r\nDECLARE queue q rate=1/s update\r\n'
        is_read(c)
      end)
      c:expect_line 'OK'
      c:expect_line "ERR not-found 'q' was deleted before it could change"
      for _ = 1, 3 do c:expect_line 'OK' end
      assert.same({ ttl = '4h', rate = '1/s' }, options())
    end)

    it('goes with a connection that is killed', function()
      c:ok 'DECLARE queue q ttl=1h'
      held_up(function()
        local gone, other = broker:connect(), broker:connect()
        gone:send 'DECLARE queue q ttl=2h update\r\nDECLARE queue q ttl=3h update\r\n'
        is_read(gone)
        other:send 'DECLARE queue q rate=5/s update\r\n'
        is_read(other)
        for _, one in ipairs(c:document 'LIST connections') do
          if one.pending == 2 then c:ok('KILL connection ' .. one.connection) end
        end
        gone:expect '^EVT closed '
        gone:expect_closed()
        os.execute('kill -CONT ' .. pid)
        other:expect_line 'OK'
        other:close()
      end)
      assert.same({ ttl = '2h', rate = '5/s' }, options())
    end)

    it('asks again who may do it, and is refused with what is not stored', function()
      broker:redis_cli('CONFIG', 'SET', 'maxmemory', '1')
      c:send 'DECLARE queue q ttl=1h\r\nDECLARE queue q ttl=2h update\r\nPING\r\n'
      c:expect '^ERR store '
      c:expect_line "ERR not-found 'q' was deleted before it could change"
      c:expect_line 'OK'
      broker:redis_cli('CONFIG', 'SET', 'maxmemory', '0')
      assert.same({}, c:document 'LIST queues')
    end)

    it('is busy when too many wait', function()
      c:ok 'DECLARE queue q ttl=1h'
      held_up(function()
        c:send(('DECLARE queue q ttl=2h update\r\n'):rep(258))
        is_read(c)
        local other = broker:connect()
        other:expect_answer('DECLARE queue q ttl=3h update',
          "ERR busy too many DECLAREs of queue 'q' wait for Redis; try again")
        other:close()
      end)
      for _ = 1, 257 do c:expect_line 'OK' end
      c:expect_line "ERR busy too many DECLAREs of queue 'q' wait for Redis; try again"
      assert.same({ ttl = '2h' }, options())
    end)

    it('waits when it is an exchange or a topic', function()
      c:send(table.concat {
        'DECLARE exchange x topic\r\n',
        'DECLARE exchange x topic internal update\r\n',
        'DECLARE exchange x topic internal\r\n',
        'DECLARE exchange x topic alternate=lost update\r\n',
        'DECLARE topic t partitions=1\r\n',
        'DECLARE topic t retention=1h update\r\n',
        'DECLARE topic t retention-count=5 update\r\n',
      })
      for _ = 1, 3 do c:expect_line 'OK' end
      c:expect '^OK warning alternate=lost: '
      for _ = 1, 3 do c:expect_line 'OK' end
      assert.same({ partitions = '1', retention = '1h', ['retention-count'] = '5' }, options 'topics')
      local x
      for _, e in ipairs(c:document 'LIST exchanges') do
        if e.name == 'x' then x = e end
      end
      assert.same({ internal = '1', alternate = 'lost' }, x.options)
    end)

    it('has the options of one of them after kill -9', function()
      c:ok 'DECLARE queue q max-length=1 delivery-limit=1'
      for round = 1, 8 do
        local other = broker:connect()
        local words = { ('max-length=%d1 delivery-limit=%d1'):format(round, round),
          ('max-length=%d2 delivery-limit=%d2'):format(round, round) }
        other:send(('DECLARE queue q %s update\r\nDECLARE queue q %s update\r\n'):format(words[1], words[2]))
        if round % 2 == 0 then other:expect_line 'OK' end
        if round % 4 < 2 then broker:kill9() else broker:kill9_all() end
        other:close()
        broker:run()
        reconnect()
        local has = options()
        assert.equal(has['delivery-limit'], has['max-length'])
        if round % 2 == 0 then assert.matches('^' .. round, has['max-length']) end
      end
      renew_redis()
    end)
  end)

  it('of a queue that is deleted meanwhile changes nothing', function()
    c:ok 'DECLARE queue q ttl=1h retry=fixed'
    local pid = broker:redis_pid()
    os.execute('kill -STOP ' .. pid)
    c:send 'DECLARE queue q retry=exponential update\r\nDELETE queue q\r\n'
    os.execute('kill -CONT ' .. pid)
    c:expect_line 'OK'
    c:expect_line 'OK'
    assert.same({}, c:document 'LIST queues')
    c:ok 'DECLARE queue q'
    broker:restart()
    reconnect()
    assert.same({}, options())
  end)

  for _, durable in ipairs { 'durable=1', 'durable=0' } do
    describe('with ' .. durable, function()
      local function declare(words) c:ok('DECLARE queue q ' .. durable .. (words and ' ' .. words or '')) end
      local function update(words) c:ok(('DECLARE queue q %s update'):format(words)) end

      it('asks the new retry script about the next failure', function()
        declare 'retry=none'
        c:ok('PUB - q', 'a')
        local msg = c:get('q')[1]
        update 'retry=fixed retry.delay=0'
        c:ok('NACK ' .. msg.tag)
        assert.equal(1, c:stats('q').ready)
        update 'retry=none'
        c:ok('NACK ' .. c:get('q')[1].tag)
        assert.equal(1, c:stats('q').buried)
      end)

      it('gives new ranks to new messages', function()
        declare()
        for i = 1, 3 do c:ok('PUB - q pri=' .. i, 'old' .. i) end
        update 'priority=strict'
        for i = 1, 3 do c:ok('PUB - q pri=' .. i, 'new' .. i) end
        assert.same({ 'new3', 'new2', 'new1', 'old1', 'old2', 'old3' }, (traffic.take(c, 'q', 6)))
        -- The state of a script that did not change stays; that of one with other options begins anew.
        update 'priority=fair priority.by=t'
        for i = 1, 4 do c:ok('PUB - q h:t=a', 'a' .. i) end
        c:ok('PUB - q h:t=b', 'b1')
        assert.same({ 'a1', 'a2', 'b1', 'a3', 'a4' }, (traffic.take(c, 'q', 5)))
      end)

      it('leases for the new time from the next delivery on', function()
        declare 'ack-timeout=1h'
        c:ok('PUB - q', 'a')
        c:ok('PUB - q', 'b')
        c:get 'q'
        update 'ack-timeout=50ms'
        c:get 'q'
        wait.poll(function() return c:stats('q').timed_out == 1 end)
        assert.equal(1, c:stats('q').unacked)
      end)

      it('extends a lease by what it was, and by no more than the new limit', function()
        declare 'ack-timeout=1h'
        c:ok('PUB - q', 'a')
        c:ok 'SUB q s notify-lease=1d'
        local tag = c:expect_msg().tag
        local function expect_lease(least_ms, most_ms)
          local ms = tonumber(c:expect(('^EVT lease s %d (%%d+)$'):format(tag)))
          assert.is_true(ms > least_ms and ms <= most_ms, ms .. ' ms')
        end
        expect_lease(3500000, 3600000)
        c:send 'DECLARE queue q ack-timeout=2h update\r\n'
        c:expect_line 'EVT updated s ack-timeout=2h'
        c:expect_line 'OK'
        c:ok('TOUCH ' .. tag)
        expect_lease(3500000, 3600000)
        c:ok('TOUCH ' .. tag .. ' for=3h')
        expect_lease(10700000, 10800000)
        c:send 'DECLARE queue q ack-timeout=10m ack-timeout-max=20m update\r\n'
        c:expect_line 'EVT updated s ack-timeout=10m'
        c:expect_line 'OK'
        c:ok('TOUCH ' .. tag .. ' for=3h')
        expect_lease(1100000, 1200000)
        c:ok('TOUCH ' .. tag)
        expect_lease(1100000, 1200000)
      end)

      it('tells a subscription when its lease is another', function()
        declare()
        local other = broker:connect()
        other:send '@1 OPEN\r\n@1 SUB q s\r\n@1 SUB q own ack-timeout=1h\r\n@1 SUB q auto ack=auto\r\n'
        for _ = 1, 4 do other:expect_line '@1 OK' end
        update 'ttl=1h retry=fixed'
        other:expect_nothing()
        update 'ack-timeout=5m'
        other:expect_line '@1 EVT updated s ack-timeout=5m'
        update 'ack-timeout=300s ack-timeout-max=30m'
        other:expect_line '@1 EVT updated own ack-timeout=30m'
        other:expect_nothing()
        other:close()
      end)

      it('tells it after the OK of a SUB that has to wait', function()
        declare()
        c:ok 'DECLARE queue slow'
        local other = broker:connect()
        other:send '@5 OPEN\r\n@5 GET slow wait=1h\r\n@5 SUB q s\r\n'
        other:expect_line '@5 OK'
        other:expect_nothing()
        update 'ack-timeout=5m'
        update 'ack-timeout=6m'
        other:expect_nothing()
        c:ok('PUB - slow', 'y')
        other:expect_line '@5 OK 1'
        other:expect_msg(nil, 5)
        other:expect_line '@5 OK'
        other:expect_line '@5 EVT updated s ack-timeout=6m'
        other:close()
      end)

      it('lets new messages live for the new time', function()
        declare()
        c:ok('PUB - q', 'stays')
        update 'ttl=30ms'
        c:ok('PUB - q', 'goes')
        wait.poll(function() return c:stats('q').expired == 1 end)
        update 'ttl='
        c:ok('PUB - q', 'stays, too')
        assert.same({ 'stays', 'stays, too' }, (traffic.take(c, 'q', 2)))
      end)

      it('limits what waits at once', function()
        declare()
        publish(30)
        update 'max-length=10'
        assert.matches('^ERR full ', c:request('PUB - q', 'x'))
        update 'overflow=drop-head'
        wait.poll(function() return c:stats('q').ready == 10 end)
        assert.equal('21', c:get('q')[1].payload)
        update 'max-length= overflow='
        publish(30)
        assert.equal(39, c:stats('q').ready)
      end)

      it('limits bytes that have been there before', function()
        declare()
        for _ = 1, 10 do c:ok('PUB - q', ('x'):rep(100)) end
        update 'max-bytes=2000'
        assert.equal(1000, c:stats('q').waiting_bytes)
        for _ = 1, 10 do c:ok('PUB - q', ('x'):rep(100)) end
        assert.matches('^ERR full ', c:request('PUB - q', 'x'))
        if durable == 'durable=0' then return end
        broker:restart()
        reconnect()
        assert.equal(2000, c:stats('q').waiting_bytes)
        assert.matches('^ERR full ', c:request('PUB - q', 'x'))
        update 'max-bytes='
        c:ok('PUB - q', 'x')
      end)

      it('dead-letters to the new target after fewer failures', function()
        c:ok 'DECLARE queue dead'
        declare 'retry=fixed retry.delay=0'
        c:ok('PUB - q', 'a')
        update 'dead-letter=-/dead delivery-limit=1'
        c:ok('NACK ' .. c:get('q')[1].tag)
        assert.equal('a', c:get('dead')[1].payload)
        assert.equal("OK warning dead-letter=-/nowhere: there is no queue 'nowhere'; until it is declared, " ..
          'dead messages are buried', c:request 'DECLARE queue q dead-letter=-/nowhere update')
      end)

      it('places messages anew and keeps the order of each key', function()
        declare 'shards=4 sharding.by=k'
        local function numbers(from, to)
          for i = from, to do c:ok(('PUB - q h:k=%d h:j=%d'):format(i % 5, i % 3), tostring(i)) end
        end
        numbers(1, 40)
        update 'sharding=round_robin sharding.by='
        numbers(41, 60)
        update 'shards=2'
        numbers(61, 80)
        local last = {}
        for _, payload in ipairs((traffic.take(c, 'q', 80))) do
          local n = tonumber(payload)
          assert.is_true((last[n % 5] or 0) < n, payload .. ' came late')
          last[n % 5] = n
        end
        assert.equal(2, c:stats('q').shards)
      end)

      it('deletes a queue that nobody uses for the new time', function()
        declare()
        update 'expires=50ms'
        wait.poll(function() return #c:document 'LIST queues' == 0 end)
      end)

      it('holds back deliveries, or no longer', function()
        declare 'rate=1/h'
        publish(3)
        c:ok 'SUB q s'
        c:expect_msg()
        update 'rate=1000/s'
        c:expect_msg()
        c:expect_msg()
      end)

      it('makes a queue single-active while it has no subscription', function()
        declare()
        c:ok 'SUB q s'
        c:expect_answer('DECLARE queue q single-active=1 update',
          "ERR mismatch queue 'q' cannot change so: it keeps single-active=0 while it has subscriptions; " ..
          'end them first')
        c:ok 'UNSUB s'
        update 'single-active=1'
        c:expect_answer('GET q', "ERR denied queue 'q' is single-active: only SUB takes its messages")
      end)

      it('counts no bytes that Redis alone knows', function()
        declare()
        publish(100)
        if durable == 'durable=1' then
          broker:restart()
          reconnect()
          c:expect_answer('DECLARE queue q max-bytes=1000 update',
            "ERR mismatch queue 'q' cannot change so: it keeps max-bytes=0 while Redis alone has some of its " ..
            'messages and their bytes are not known; try again when fewer wait, or use max-length=')
          traffic.take(c, 'q', 95)
        end
        update 'max-bytes=1000'
        local left = c:stats('q')
        assert.equal(durable == 'durable=1' and 11 or 192, left.waiting_bytes)
      end)
    end)
  end

  describe('of a topic', function()
    it('changes what it keeps', function()
      c:ok 'DECLARE topic t partitions=1 durable=1'
      for i = 1, 50 do c:ok('PUB - t', tostring(i)) end
      c:ok 'DECLARE topic t retention-count=10 update'
      wait.poll(function() return c:document('LIST topics')[1].messages == 10 end)
      c:ok 'DECLARE topic t keep-unread=a,b retention-count= update'
      c:ok 'DECLARE topic t partitions=1 keep-unread=b,a'
      assert.same({ partitions = '1', ['keep-unread'] = 'a,b' }, options 'topics')
      broker:restart()
      reconnect()
      assert.same({ partitions = '1', ['keep-unread'] = 'a,b' }, options 'topics')
      assert.equal(10, c:document('LIST topics')[1].messages)
    end)

    it('keeps where its keys are', function()
      c:ok 'DECLARE topic t partitions=4'
      for words, keeps in pairs {
        ['partitions=3'] = 'partitions=4, because its messages stay in their partitions: there can be more of them, '
          .. 'but not fewer',
        ['sharding=random'] = 'sharding=hash, because each key has its messages in one partition',
        ['sharding.by=h'] = 'sharding=hash, because each key has its messages in one partition',
        ['order=0'] = 'order=1, because its groups hold messages by it',
        ['compact=key'] = 'compact=(none), because it decides from the first message on which are kept',
      } do
        c:expect_answer(('DECLARE topic t %s update'):format(words),
          "ERR mismatch topic 't' cannot change so: it keeps " .. keeps .. '; declare a topic of another name')
      end
    end)

    it('tells members that their lease is another', function()
      c:ok 'DECLARE topic t partitions=1'
      c:ok 'SUB t s group=g'
      c:expect_line 'EVT assigned s 0'
      c:send 'DECLARE topic t ack-timeout=5m update\r\n'
      c:expect_line 'EVT updated s ack-timeout=5m'
      c:expect_line 'OK'
    end)

    it('asks the new retry script', function()
      c:ok 'DECLARE topic t partitions=1 retry=none'
      c:ok 'DECLARE queue dead'
      c:ok 'DECLARE topic t retry=fixed retry.delay=0 delivery-limit=2 dead-letter=-/dead update'
      c:ok('PUB - t', 'a')
      c:ok 'SUB t s group=g'
      c:expect_line 'EVT assigned s 0'
      c:ok('NACK ' .. c:expect_msg().tag)
      c:ok('NACK ' .. c:expect_msg().tag)
      wait.poll(function() return c:stats('dead').ready == 1 end)
    end)
  end)

  describe('of an exchange', function()
    local function exchange()
      for _, x in ipairs(c:document 'LIST exchanges') do
        if x.name == 'x' then return x end
      end
    end

    for _, durable in ipairs { 'durable=1', 'durable=0' } do
      it('changes its alternate, internal and auto-delete, with ' .. durable, function()
        c:ok('DECLARE exchange x topic ' .. durable)
        c:ok 'DECLARE exchange lost fanout'
        c:ok 'DECLARE queue q'
        c:ok 'BIND q lost -'
        assert.matches(' 0$', c:ok('PUB x a', 'm'))
        c:ok 'DECLARE exchange x topic alternate=lost update'
        assert.matches(' 1$', c:ok('PUB x a', 'm'))
        c:ok 'DECLARE exchange x topic internal update'
        assert.matches('^ERR denied ', c:request('PUB x a', 'm'))
        if durable == 'durable=1' then
          broker:restart()
          reconnect()
        end
        assert.equal('lost', exchange().options.alternate)
        c:ok 'DECLARE exchange x topic internal= alternate= auto-delete=1 update'
        assert.matches(' 0$', c:ok('PUB x a', 'm'))
        assert.is_nil(exchange().options.alternate)
        c:ok 'BIND q x a'
        c:ok 'UNBIND q x a'
        assert.is_nil(exchange())
      end)
    end

    it('has the old options or the new ones after kill -9 at any moment', function()
      c:ok 'DECLARE exchange x topic alternate=lost1'
      c:ok 'DECLARE queue q'
      c:ok 'BIND q x a'
      local had = 1
      for round = 2, 9 do
        local other = broker:connect()
        other:send(('DECLARE exchange x topic alternate=lost%d internal=%d update\r\n'):format(round, round % 2))
        if round % 4 < 2 then other:expect '^OK' end
        if round % 2 == 0 then broker:kill9() else broker:kill9_all() end
        other:close()
        broker:run()
        reconnect()
        local has = exchange()
        local n = tonumber(has.options.alternate:match '^lost(%d)$')
        assert.equal(n % 2 == 1 and n > 1 and '1' or nil, has.options.internal)
        assert.is_true(n == round or (round % 4 >= 2 and n == had), 'round ' .. round .. ' has ' .. n)
        had = n
        assert.equal(1, has.bindings)
      end
      renew_redis()
    end)

    it('keeps the rest', function()
      c:ok 'DECLARE exchange x topic'
      c:expect_answer('DECLARE exchange x direct update',
        "ERR mismatch exchange 'x' exists with type topic, not direct; declare an exchange of another name, " ..
          'and bind to it')
      c:expect_answer('DECLARE exchange x topic durable=0 internal update',
        "ERR mismatch exchange 'x' cannot change so: it keeps durable=1, because bindings do not move between " ..
        'memory and Redis; declare an exchange of another name, and bind to it')
      c:expect_answer('DECLARE exchange x topic internal x=1 update',
        "ERR mismatch exchange 'x' cannot change so: it keeps x=(none), because its bindings are indexed by it; " ..
        'declare an exchange of another name, and bind to it')
      assert.matches('^ERR syntax internal=2', c:request 'DECLARE exchange x topic internal=2 update')
      c:expect_answer('DECLARE exchange x topic alternate=nowhere update',
        "OK warning alternate=nowhere: there is no exchange 'nowhere'; until it is declared, " ..
          'what no queue takes is dropped')
      c:ok 'DECLARE exchange x topic alternate= update'
      c:ok 'DECLARE exchange x topic'
    end)
  end)

  it('names what is given first when options differ', function()
    c:ok 'DECLARE queue q retry=fixed ttl=1h'
    c:expect_answer('DECLARE queue q ttl=2h',
      "ERR mismatch queue 'q' exists with other options: it has ttl=1h, not ttl=2h; the option update changes that")
    c:expect_answer('DECLARE queue q ttl=60m retry.max=3',
      "ERR mismatch queue 'q' exists with other options: it has retry.max=20, not retry.max=3; " ..
      'the option update changes that')
    c:expect_answer('DECLARE queue q ttl=60m',
      "ERR mismatch queue 'q' exists with other options: it has retry=fixed, not retry=immediate; " ..
      'the option update changes that')
  end)

  it('applies to candidate rules, too', function()
    c:ok 'DECLARE queue q shards=2'
    c:document('RULES shadow ' .. broker:copy_rules('next', { ['sharding/always.lua'] = always(0) }) .. ' share=100')
    c:ok('PUB - q', 'a')
    assert.equal(0, c:document('RULES shadow status').differing)
    c:ok 'DECLARE queue q sharding=always update'
    c:ok('PUB - q', 'a')
    assert.equal(1, c:document('RULES shadow status').differing)
    c:ok 'RULES shadow drop'
  end)

  it('is what a reload checks its files against', function()
    c:ok 'DECLARE queue q'
    broker:write_rule('sharding/mine.lua', always(0))
    wait.poll(function() return c:request('DECLARE queue q sharding=mine update') == 'OK' end)
    broker:remove_rule 'sharding/mine.lua'
    assert.matches("^ERR rule sharding/mine.lua: is missing, but queue 'q'", c:request('RULES reload'))
    c:ok 'DECLARE queue q sharding= update'
    c:document 'RULES reload'
  end)
end)
