-- Queues whose messages have an order within groups: order-by and inflight.
local Broker = require 'support.broker'
local traffic = require 'support.traffic'
local wait = require 'support.wait'

describe('a queue with order-by', function()
  local broker, c, d

  setup(function() broker = Broker.start { args = { '--fsync', 'no', '--window-messages', '16' } } end)
  teardown(function() broker:destroy() end)
  before_each(function()
    c = broker:enter_vhost()
    d = broker:connect()
  end)
  after_each(function()
    c:close()
    d:close()
  end)

  local function restart(how)
    broker[how](broker)
    broker:restart()
    c, d = broker:connect(), broker:connect()
  end

  --- Publish to the queue jobs: 'a1 a2 b1' are two messages of group a and one of group b.
  local function publish(words, options)
    for word in words:gmatch '%S+' do
      local group = word:match '^%a+'
      local header = group == 'none' and '' or ' h:g=' .. group
      c:ok(('PUB - jobs%s%s'):format(header, options and ' ' .. options or ''), word)
    end
  end

  local function get(n, options)
    local words, tags = {}, {}
    for _, m in ipairs(d:get(('jobs max=%d%s'):format(n, options and ' ' .. options or ''))) do
      words[#words + 1] = m.payload
      tags[m.payload] = m.tag
    end
    return table.concat(words, ' '), tags
  end

  local function expect_order(expected)
    local order = c:stats('jobs').order
    for name, value in pairs(expected) do assert.equal(value, order[name], name) end
  end

  it('says what is wrong with its options', function()
    for line, answer in pairs {
      ['order-by=kex'] = 'order-by=kex: expected key, shard, or h:<name> for the values of a header',
      ['order-by=h:'] = 'order-by=h:: expected key, shard, or h:<name> for the values of a header',
      ['order-by=key inflight=0'] =
        'inflight=0: expected a number from 1 to 65535: messages of a group that are at work at a time',
      ['inflight=2'] =
        'inflight=2 counts messages of a group: it needs order-by=key, order-by=shard or order-by=h:<name>',
      ['order-by=key shards=4 sharding=round_robin'] =
        'a group needs all of its messages in one shard: with shards=4, order-by=key needs ' ..
        'sharding=hash or sharding=consistent with sharding.by=key',
      ['order-by=h:g shards=4'] =
        'a group needs all of its messages in one shard: with shards=4, order-by=h:g needs ' ..
        'sharding=hash or sharding=consistent with sharding.by=g',
    } do
      c:expect_answer('DECLARE queue jobs ' .. line, 'ERR syntax ' .. answer)
    end
    c:ok 'DECLARE queue a order-by=h:g shards=4 sharding=consistent sharding.by=g'
    c:ok 'DECLARE queue b order-by=shard shards=4 sharding=round_robin inflight=3'
    c:ok 'DECLARE queue c order-by=key'
    c:ok 'DECLARE queue c order-by=key inflight=1'
    c:expect_answer('DECLARE queue c order-by=key inflight=2',
      "ERR mismatch queue 'c' exists with other options: it has inflight=1, not inflight=2")
    c:expect_answer('DECLARE queue c order-by=h:key',
      "ERR mismatch queue 'c' exists with other options: it has order-by=key, not order-by=h:key")
    assert.same({ ['order-by'] = 'key', inflight = '1' }, c:document('LIST queues')[3].options)
  end)

  for _, how in ipairs { 'durable=1', 'durable=0' } do
    describe(how, function()
      it('has one message of a group at work, and its order', function()
        c:ok('DECLARE queue jobs order-by=h:g ' .. how)
        publish 'a1 a2 b1 none1 a3 b2 none2'
        local got, tags = get(10)
        assert.equal('a1 b1 none1 none2', got)
        expect_order { groups = 2, groups_blocked = 2, parked = 3, stopped = false }
        assert.equal(3, c:stats('jobs').ready)
        d:ok('ACK ' .. tags.b1)
        assert.equal('b2', (get(10)))
        d:ok('ACK ' .. tags.a1)
        got, tags = get(10)
        assert.equal('a2', got)
        publish 'a0'
        d:ok('ACK ' .. tags.a2)
        assert.equal('a3', (get(10)))
        expect_order { groups = 2, groups_blocked = 1, parked = 1 }
      end)

      it('lets so many of a group be at work', function()
        c:ok('DECLARE queue jobs order-by=key inflight=2 ' .. how)
        publish 'a1 a2 a3 a4 a5'
        local got, tags = get(10)
        assert.equal('a1 a2', got)
        d:ok('ACK ' .. tags.a2)
        assert.equal('a3', (get(10)))
        d:ok('NACK ' .. tags.a1 .. ' requeue')
        assert.equal('a1', (get(10)))
      end)

      it('can be one group', function()
        c:ok('DECLARE queue jobs order-by=shard ' .. how)
        publish 'a1 b1 c1'
        local got, tags = get(10)
        assert.equal('a1', got)
        d:ok('NACK ' .. tags.a1 .. ' delay=1s')
        assert.equal('', (get(10)))
        got, tags = get(10, 'wait=10s')
        assert.equal('a1', got)
        d:ok('ACK ' .. tags.a1)
        assert.equal('b1', (get(10)))
      end)

      it('gives a failed message first again, and blocks its group alone until then', function()
        c:ok('DECLARE queue jobs order-by=h:g retry=fixed retry.delay=1h ack-timeout=1h ' .. how)
        publish 'a1 a2 b1 b2'
        local _, tags = get(10)
        d:ok('NACK ' .. tags.a1)
        d:ok('NACK ' .. tags.b1 .. ' requeue')
        local got
        got, tags = get(10)
        assert.equal('b1', got)
        d:ok('ACK ' .. tags.b1)
        assert.equal('b2', (get(10)))
        expect_order { groups = 2, groups_blocked = 1, parked = 1 }
        assert.equal(1, c:stats('jobs').delayed)
      end)

      it('goes on behind what is buried, dead-lettered or dropped', function()
        c:ok 'DECLARE queue dead'
        c:ok('DECLARE queue jobs order-by=h:g retry=none ' .. how)
        publish 'a1 a2 a3'
        local _, tags = get(10)
        d:ok('NACK ' .. tags.a1)
        _, tags = get(10)
        d:ok('NACK ' .. tags.a2 .. ' dead')
        assert.equal('a3', (get(10)))
        assert.equal(2, c:stats('jobs').buried)
        c:ok 'KICK jobs 2'
        assert.equal('', (get(10)))
      end)

      it('gives what a lost consumer held, or held for too long, first again', function()
        c:ok('DECLARE queue jobs order-by=h:g ack-timeout=500ms ' .. how)
        publish 'a1 a2 b1 b2'
        local e = broker:connect()
        assert.equal(2, #e:get 'jobs max=10')
        e:close()
        local got, tags = get(10, 'wait=10s')
        while #got < 5 do
          local more, others = get(10, 'wait=10s')
          got = got .. ' ' .. more
          for word, tag in pairs(others) do tags[word] = tag end
        end
        assert.equal('a1 b1', got)
        got = get(10, 'wait=10s') -- their time is over
        assert.is_true(got == 'a1 b1' or got == 'a1', got)
      end)

      it('does not wait for a publish that is not due', function()
        c:ok('DECLARE queue jobs order-by=h:g ' .. how)
        publish('a1', 'delay=1s')
        publish 'a2 a3'
        local got, tags = get(10)
        assert.equal('a2', got)
        traffic.expect_counts(c, 'jobs', { ready = 2 })
        d:ok('ACK ' .. tags.a2)
        assert.equal('a1', (get(10))) -- it has the lower id
      end)

      it('lets a more urgent message overtake within its group', function()
        c:ok('DECLARE queue jobs order-by=h:g priority=strict ' .. how)
        publish 'a1 a2'
        local got, tags = get(10)
        assert.equal('a1', got)
        publish('a3', 'pri=9')
        d:ok('ACK ' .. tags.a1)
        got, tags = get(10)
        assert.equal('a3', got)
        d:ok('ACK ' .. tags.a3)
        assert.equal('a2', (get(10)))
      end)

      it('lets parked messages expire', function()
        c:ok('DECLARE queue jobs order-by=h:g ' .. how)
        publish 'a1'
        local _, tags = get(10)
        publish('a2', 'ttl=30ms')
        publish 'a3'
        assert.equal('', (get(10)))
        traffic.expect_counts(c, 'jobs', { ready = 1, expired = 1 })
        d:ok('ACK ' .. tags.a1)
        assert.equal('a3', (get(10)))
      end)

      it('hands out in order what needs no acknowledgement', function()
        c:ok('DECLARE queue jobs order-by=h:g ' .. how)
        d:ok 'SUB jobs s ack=auto prefetch=1'
        publish 'a1 a2 b1 a3'
        for _, word in ipairs { 'a1', 'a2', 'b1', 'a3' } do assert.equal(word, d:expect_msg().payload) end
      end)

      it('serves subscribers, of a group one at a time', function()
        c:ok('DECLARE queue jobs order-by=h:g ' .. how)
        local e = broker:connect()
        d:ok 'SUB jobs s prefetch=10'
        e:ok 'SUB jobs s prefetch=10'
        publish 'a1 a2 a3'
        for i = 1, 3 do
          local line, who
          assert(wait.poll(function()
            for _, client in ipairs { d, e } do
              line, who = client:read_line(0), client
              if line then return true end
            end
          end))
          local m = who:delivery(line)
          assert.equal('a' .. i, m.payload)
          d:expect_nothing()
          e:expect_nothing()
          who:ok('ACK ' .. m.tag)
        end
        e:close()
      end)

      it('is purged with what is parked', function()
        c:ok('DECLARE queue jobs order-by=h:g ' .. how)
        publish 'a1'
        local _, tags = get(10)
        traffic.publish(c, 'jobs', 200, function(i) return 'a' .. i, 'h:g=a' end)
        publish 'b1'
        assert.equal('b1', (get(10, 'wait=10s')))
        assert.equal('200', c:ok 'PURGE jobs')
        traffic.expect_counts(c, 'jobs', { ready = 0, unacked = 2 })
        expect_order { groups = 2, groups_blocked = 0, parked = 0 }
        publish 'a9'
        d:ok('ACK ' .. tags.a1)
        assert.equal('a9', (get(10)))
        c:ok 'DELETE queue jobs'
      end)

      it('finds, takes and removes what is parked by its id', function()
        c:ok('DECLARE queue jobs order-by=h:g ' .. how)
        publish 'a0'
        local _, tags = get(10)
        local ids = {}
        for i = 1, 300 do ids[i] = c:ok('PUB - jobs h:g=a', 'a' .. i):match '^%x+' end
        publish 'b1'
        assert.equal('b1', (get(10, 'wait=10s')))
        for _, i in ipairs { 1, 150, 300 } do
          local found = c:document('FIND jobs ' .. ids[i])
          assert.equal('ready', found.state)
          assert.equal('a' .. i, found.payload)
        end
        assert.equal('3', c:ok(('REMOVE jobs %s %s %s'):format(ids[2], ids[200], ids[299])))
        local m = d:get('jobs id=' .. ids[250])[1] -- out of turn, because somebody wants it
        assert.equal('a250', m.payload)
        assert.equal(296, c:stats('jobs').ready)
        d:ok('ACK ' .. tags.a0)
        assert.equal('', (get(10)))
        d:ok('ACK ' .. m.tag)
        for i = 1, 300 do
          if i ~= 2 and i ~= 200 and i ~= 250 and i ~= 299 then
            local got
            got, tags = get(10, 'wait=10s')
            assert.equal('a' .. i, got)
            d:ok('ACK ' .. tags[got])
          end
        end
        traffic.expect_counts(c, 'jobs', { ready = 0 })
      end)

      --- 300 messages of the groups a and b, which both have one at work: all are parked.
      local function park(options)
        c:ok('DECLARE queue jobs order-by=h:g ' .. how .. (options or ''))
        publish 'a0 b0'
        local got, tags = get(2)
        assert.equal('a0 b0', got)
        traffic.publish(c, 'jobs', 300, function(i)
          local group = i % 3 == 0 and 'b' or 'a'
          return group .. i, 'h:g=' .. group .. (i % 100 == 50 and ' ttl=1h' or '')
        end)
        assert.equal('', (get(10)))
        assert(wait.poll(function()
          return get(10) == '' and c:stats('jobs').order.parked == 300
        end))
        return tags
      end

      local function expected(first, last)
        local words = {}
        for i = first, last do words[#words + 1] = (i % 3 == 0 and 'b' or 'a') .. i end
        return words
      end

      --- Gives payloads and ids.
      local function read_all(words)
        local seen, ids, after = {}, {}, ''
        repeat
          local page = c:document('PEEK jobs ' .. words .. after)
          for _, m in ipairs(page.messages) do seen[#seen + 1], ids[#ids + 1] = m.payload, m.id end
          after = page.next and ' after=' .. page.next
          assert.is_true(#seen <= 1000)
        until not after
        return seen, ids
      end

      it('shows all that is ready, each message once and in order', function()
        local tags = park()
        for _, n in ipairs { 1, 7, 100 } do assert.same(expected(1, 300), (read_all(tostring(n)))) end
        assert.same({ 'a77', 'b177', 'a277' }, (read_all '2 match=77'))
        local _, ids = read_all '100'
        assert.equal('a151', c:peek('jobs 1 after=' .. ids[150])[1].payload)
        -- What is on its way: gone, back, held, new.
        d:ok('ACK ' .. tags.a0)
        local got
        got, tags = get(10, 'wait=10s')
        assert.equal('a1', got)
        assert.same(expected(2, 300), (read_all '70'))
        d:ok('NACK ' .. tags.a1 .. ' requeue')
        c:ok('REMOVE jobs ' .. ids[299])
        publish 'b301 a302'
        local words = expected(1, 298)
        words[299], words[300], words[301] = 'b300', 'b301', 'a302'
        assert.same(words, (read_all '100'))
        assert.same(words, (read_all '9'))
        assert.equal(301, c:stats('jobs').ready)
      end)

      it('sends back by REDRIVE what is parked too', function()
        c:ok('DECLARE queue other ' .. how)
        park()
        assert.equal('100 0', c:ok 'REDRIVE jobs to=-/other match=h:g=b')
        assert.equal('5 0', c:ok 'REDRIVE jobs 5 to=-/other')
        assert.equal('195 0', c:ok 'REDRIVE jobs to=-/other')
        traffic.expect_counts(c, 'jobs', { ready = 0, unacked = 2 })
        local seen = traffic.take(d, 'other', 300)
        table.sort(seen, function(x, y) return tonumber(x:match '%d+') < tonumber(y:match '%d+') end)
        assert.same(expected(1, 300), seen)
        expect_order { groups = 2, groups_blocked = 0, parked = 0 }
      end)

      it('gives to GET match= what may be next in its group', function()
        c:ok('DECLARE queue jobs order-by=h:g ' .. how)
        publish 'a1x a2x b1 b2x c1 none1 none2x'
        local got, tags = get(1)
        assert.equal('a1x', got)
        -- a2x waits for a1x, and b2x for b1.
        got = get(10, 'match=x')
        assert.equal('none2x', got)
        d:ok('ACK ' .. tags.a1x)
        assert.equal('a2x', (get(10, 'match=x')))
        assert.equal('b1', (get(1)))
        assert.equal('', (get(10, 'match=x')))
        expect_order { groups = 2 }
        c:ok 'DELETE queue jobs'
        c:ok('DECLARE queue jobs order-by=h:g inflight=2 ' .. how)
        publish 'a1 a2x a3x'
        got, tags = get(10, 'match=x')
        assert.equal('a2x', got)
        assert.equal('', (get(10, 'match=x')))
        d:ok('ACK ' .. tags.a2x)
        assert.equal('a3x', (get(10, 'match=x')))
        assert.equal('a1', (get(10)))
      end)

      it('serves others behind a group with a long backlog, and that one in order', function()
        c:ok('DECLARE queue jobs order-by=h:g ' .. how)
        publish 'a0'
        local _, tags = get(10)
        traffic.publish(c, 'jobs', 500, function(i) return 'a' .. i, 'h:g=a' end)
        traffic.publish(c, 'jobs', 100, function(i) return 'b' .. i, 'h:g=b' .. i end)
        for i = 1, 100 do
          local got, other = get(1, 'wait=10s')
          assert.equal('b' .. i, got)
          d:ok('ACK ' .. other[got])
        end
        expect_order { groups = 1, groups_blocked = 1, parked = 500 }
        assert.equal(500, c:stats('jobs').ready)
        for i = 1, 500 do
          d:ok('ACK ' .. tags['a' .. i - 1])
          local got
          got, tags = get(10, 'wait=10s')
          assert.equal('a' .. i, got)
        end
      end)
    end)
  end

  for _, how in ipairs { 'kill9', 'kill9_all', 'expect_clean_stop' } do
    it('keeps its order over a restart: ' .. how, function()
      c:ok 'DECLARE queue jobs order-by=h:g'
      c:ok 'DECLARE queue late order-by=key'
      publish 'a1 a2 b1 b2 none1'
      local _, tags = get(10)
      d:ok('NACK ' .. tags.a1 .. ' delay=1h')
      c:ok('PUB - late', 'late1')
      c:ok('PUB - late', 'late2')
      local late = d:get 'late'[1]
      d:ok('NACK ' .. late.tag .. ' delay=2s')
      assert(wait.poll(function()
        return broker:redis_cli('ZCARD', broker:key('jobs', 'delayed')) == '1' and
          broker:redis_cli('ZCARD', broker:key('late', 'delayed')) == '1'
      end))
      restart(how)
      expect_order { groups = 1 }
      -- a1 waits for its next attempt, and a2 for a1.
      assert.equal('b1 none1', (get(10)))
      expect_order { groups = 2, groups_blocked = 2, parked = 2 }
      assert.equal('late1', d:get 'late wait=10s'[1].payload)
      assert.equal(0, #d:get 'late')
    end)
  end

  it('gives what was held for long first again after kill -9', function()
    c:ok 'DECLARE queue jobs order-by=h:g ack-timeout=1h'
    traffic.publish(c, 'jobs', 100, function(i) return 'a' .. i, 'h:g=a' end)
    local got = get(10)
    assert.equal('a1', got)
    assert(wait.poll(function() return broker:redis_cli('ZCARD', broker:key('jobs', 'unack')) == '1' end))
    restart 'kill9_all'
    local tags
    for i = 1, 100 do
      got, tags = get(10, 'wait=10s')
      assert.equal('a' .. i, got)
      d:ok('ACK ' .. tags[got])
    end
  end)

  it('gives a GET all that is ready after kill -9', function()
    c:ok 'DECLARE queue jobs order-by=h:g'
    publish 'a1 a2 b1 b2 none1'
    local _, tags = get(10)
    -- Held for more than a second, they are noted in Redis.
    assert(wait.poll(function() return broker:redis_cli('ZCARD', broker:key('jobs', 'unack')) == '3' end))
    d:ok('NACK ' .. tags.a1 .. ' delay=1h')
    assert(wait.poll(function() return broker:redis_cli('ZCARD', broker:key('jobs', 'delayed')) == '1' end))
    restart 'kill9_all'
    assert.equal('b1 none1', (get(10)))
    expect_order { groups = 2, groups_blocked = 2, parked = 2 }
  end)

  -- Of 40 groups each has a message that waits for its next attempt, most of them in Redis alone.
  for what, take_away in pairs {
    PURGE = function() assert.equal('40', c:ok 'PURGE jobs') end,
    REMOVE = function(ids) assert.equal('40', c:ok('REMOVE jobs ' .. table.concat(ids, ' '))) end,
    expiry = function() end,
    ['drop-head'] = function()
      c:ok 'DECLARE queue jobs update max-length=1 overflow=drop-head'
      assert(wait.poll(function() return c:stats('jobs').delayed <= 1 end))
      c:ok 'DECLARE queue jobs update max-length=100 overflow=reject'
      c:ok 'PURGE jobs'
    end,
  } do
    it('waits for nothing that is gone: ' .. what, function()
      c:ok 'DECLARE queue jobs order-by=h:g'
      local ids, expected = {}, {}
      for i = 1, 40 do
        ids[i] = c:ok(('PUB - jobs h:g=%d%s'):format(i, what == 'expiry' and ' ttl=2s' or ''), 'x'):match '^%x+'
        expected[i] = 'new' .. i
      end
      for _, m in ipairs(d:get 'jobs max=40') do d:ok(('NACK %s delay=1h'):format(m.tag)) end
      take_away(ids)
      assert(wait.poll(function() return c:stats('jobs').delayed == 0 end))
      expect_order { groups = 0 }
      for i = 1, 40 do c:ok('PUB - jobs h:g=' .. i, expected[i]) end
      assert.equal(table.concat(expected, ' '), (get(40)))
    end)
  end

  it('with shards has each group in one of them', function()
    c:ok 'DECLARE queue jobs order-by=h:g shards=4 sharding.by=g'
    traffic.publish(c, 'jobs', 400, function(i) return tostring(i), 'h:g=' .. i % 20 end)
    local last, done = {}, 0
    while done < 400 do
      local seen = {}
      for _, m in ipairs(d:get 'jobs max=100 wait=10s') do
        local n = tonumber(m.payload)
        assert.is_nil(seen[n % 20], 'two of a group at a time')
        assert.equal(last[n % 20] and last[n % 20] + 20 or (n % 20 == 0 and 20 or n % 20), n)
        seen[n % 20], last[n % 20] = true, n
        d:ok('ACK ' .. m.tag)
        done = done + 1
      end
    end
  end)

  it('gives a parked message back to Redis when more urgent ones need its place', function()
    c:ok 'DECLARE queue jobs order-by=h:g priority=strict'
    publish 'a0'
    local _, tags = get(10)
    traffic.publish(c, 'jobs', 200, function(i) return 'a' .. i, 'h:g=a' end)
    assert.equal('', (get(10)))
    c:ok 'PAUSE jobs out'
    traffic.publish(c, 'jobs', 300, function(i) return 'b' .. i, 'h:g=b pri=5' end)
    c:ok 'RESUME jobs'
    traffic.expect_counts(c, 'jobs', { ready = 500 })
    d:ok('ACK ' .. tags.a0)
    local seen = { a = 0, b = 0 }
    for _ = 1, 500 do
      local got
      got, tags = get(1, 'wait=10s')
      local group, n = got:match '^(%a)(%d+)$'
      assert.equal(seen[group] + 1, tonumber(n))
      seen[group] = tonumber(n)
      d:ok('ACK ' .. tags[got])
    end
    traffic.expect_counts(c, 'jobs', { ready = 0, unacked = 0 })
  end)
end)

it('a queue with order-by reads no further than --parked-messages, and says so', function()
  local broker = Broker.start { args = { '--fsync', 'no', '--window-messages', '16', '--parked-messages', '50' } }
  finally(function() broker:destroy() end)
  local c, d = broker:connect(), broker:connect()
  c:ok 'DECLARE queue jobs order-by=h:g'
  c:ok('PUB - jobs h:g=a', 'a0')
  local tag = d:get 'jobs'[1].tag
  traffic.publish(c, 'jobs', 100, function(i) return 'a' .. i, 'h:g=a' end)
  c:ok('PUB - jobs h:g=b', 'b1')
  assert.equal(0, #d:get 'jobs wait=100ms')
  assert(wait.poll(function() return c:stats('jobs').order.stopped end))
  assert.equal(50, c:stats('jobs').order.parked)
  broker:expect_log "queue 'jobs': 50 messages of groups that are full are parked, in 1 groups: nothing behind them is"
  for i = 1, 100 do
    d:ok('ACK ' .. tag)
    local m = d:get 'jobs wait=10s'[1]
    if m.payload == 'b1' then m = d:get 'jobs wait=10s'[1] end
    assert.equal('a' .. i, m.payload)
    tag = m.tag
  end
  assert.is_false(c:stats('jobs').order.stopped)
end)
