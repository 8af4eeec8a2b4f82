-- What a dead letter says of its history, and how circles of dead letters end.
local Broker = require 'support.broker'
local wait = require 'support.wait'

local function split(m)
  local own, deaths = {}, {}
  for name, value in pairs(m.headers) do
    local death = name:match '^x%-death%-(.*)$'
    if death then deaths[death] = value else own[name] = value end
  end
  return own, deaths
end

for _, durable in ipairs { '1', '0' } do
  describe(('a dead letter of a queue with durable=%s'):format(durable), function()
    local broker, c

    setup(function() broker = Broker.start { args = { '--fsync', 'no' } } end)
    teardown(function() broker:expect_clean_stop() end)
    before_each(function() c = broker:enter_vhost() end)
    after_each(function() c:close() end)

    local function declare(name, options)
      c:ok(('DECLARE queue %s durable=%s %s'):format(name, durable, options or 'shards=1'))
    end
    local function peek(queue, state)
      return c:document(('PEEK %s 100 state=%s'):format(queue, state))
    end
    local function take(queue)
      return assert(c:get(queue .. ' wait=20s')[1], queue)
    end
    -- Take a message from the queue and have it die.
    local function kill(queue, how)
      local m = take(queue)
      c:ok(('NACK %s%s'):format(m.tag, how or ' dead'))
      return m
    end

    it('says where it died first and last, why, when, and how often where', function()
      c:ok 'DECLARE exchange orders topic'
      c:ok 'DECLARE exchange graveyard fanout'
      declare 'end'
      declare('dead', 'dead-letter=-/end')
      declare('q', 'dead-letter=graveyard/gone delivery-limit=2')
      c:ok 'BIND q orders #'
      c:ok 'BIND dead graveyard -'
      local id = c:ok('PUB orders orders.eu h:kept=yes', 'a'):match '^%x+'
      kill('q', ' delay=0')
      local second = kill('q', ' delay=0')
      local m = take 'dead'
      local own, first = split(m)
      assert.same({ kept = 'yes' }, own)
      local time = math.tointeger(tonumber(first.time))
      assert.is_true(time >= tonumber(second.options.ts), first.time)
      local expected = {
        reason = 'nack', queue = 'q', exchange = 'orders', key = 'orders.eu', attempts = '2',
        rule = 'delivery-limit', time = first.time, total = '1', counts = '1:nack:q',
        ['first-reason'] = 'nack', ['first-queue'] = 'q', ['first-exchange'] = 'orders',
        ['first-key'] = 'orders.eu', ['first-time'] = first.time, ['first-id'] = id,
      }
      assert.same(expected, first)
      c:ok(('NACK %s dead'):format(m.tag))
      local _, last = split(take 'end')
      assert.is_true(math.tointeger(tonumber(last.time)) >= time)
      expected.reason, expected.queue, expected.exchange = 'rejected', 'dead', 'graveyard'
      expected.key, expected.attempts, expected.rule = 'gone', '1', 'consumer'
      expected.total, expected.counts, expected.time = '2', '1:nack:q 1:rejected:dead', last.time
      assert.same(expected, last)
    end)

    it('keeps all 64 headers that it was published with', function()
      declare 'end'
      declare('dead', 'dead-letter=-/end')
      declare('q', 'dead-letter=-/dead')
      local line, expected = 'PUB - q', {}
      for i = 1, 64 do
        line = ('%s h:n%d=%d'):format(line, i, i * i)
        expected['n' .. i] = tostring(i * i)
      end
      c:ok(line, 'a')
      kill 'q'
      kill 'dead'
      local m = c:peek('end')[1] or (take 'end')
      local own, deaths = split(m)
      assert.same(expected, own)
      assert.equal('2', deaths.total)
    end)

    it('counts each queue and reason', function()
      declare('a', 'dead-letter=-/b')
      declare('b', 'dead-letter=-/a retry=none')
      c:ok('PUB - a', 'x')
      for i = 1, 5 do
        kill 'a'
        kill('b', i % 2 == 0 and ' dead' or '')
      end
      local _, deaths = split(take 'a')
      assert.equal('5:rejected:a 3:nack:b 2:rejected:b', deaths.counts)
      assert.equal('10', deaths.total)
    end)

    it('counts a bounded number of queues apart, and the rest together', function()
      local count = 70
      for i = 1, count do
        declare('q' .. i, ('dead-letter=-/q%d'):format(i % count + 1))
      end
      c:ok('PUB - q1', 'x')
      for i = 1, count do kill('q' .. i) end
      kill 'q1'
      local _, deaths = split(kill 'q2')
      local pairs_, others = 0, nil
      for n, reason, queue in deaths.counts:gmatch '(%d+):([%w]+):(%S+)' do
        if reason == 'others' then
          others = n
          assert.equal('-', queue)
        else
          pairs_ = pairs_ + 1
          local expected = ('%d:rejected:q%d'):format(pairs_ == 1 and 2 or 1, pairs_)
          assert.equal(expected, ('%s:%s:%s'):format(n, reason, queue))
        end
      end
      assert.equal(64, pairs_)
      assert.equal('6', others)
      assert.equal('71', deaths.total)
    end)

    it('counts as many as there is room for when their names are long', function()
      local function name(i) return ('%'):rep(250) .. ('%03d'):format(i) end
      for i = 1, 4 do
        declare(name(i), 'dead-letter=-/' .. name(i % 4 + 1):gsub('%%', '%%25'))
      end
      c:ok('PUB - ' .. name(1), 'x')
      for i = 1, 4 do kill(name(i)) end
      local _, deaths = split(take(name(1)))
      assert.equal(('1:rejected:%s 3:others:-'):format(name(1)), deaths.counts)
    end)

    it('has a line of 72 KiB at most, whatever the names are', function()
      local function name(c_, i) return ('%'):rep(253) .. c_ .. i end
      local function coded(text) return (text:gsub('%%', '%%25')) end
      for i = 1, 3 do
        c:ok(('DECLARE exchange %s fanout durable=0'):format(name('x', i)))
        local target = coded(name('x', i % 3 + 1)) .. '/' .. coded(name('k', i))
        declare(name('q', i), 'dedupe=queued dead-letter=' .. target)
        c:ok(('BIND %s %s -'):format(name('q', i), name('x', i)))
      end
      local id = ('%25'):rep(128)
      local line = ('PUB %s %s pri=255 id=%s h:a='):format(name('x', 1), name('k', 3), id)
      c:send(line .. ('x'):rep(65536 - 4 - #line) .. ' 1\r\nx\r\n')
      c:expect '^OK %x+ 1$'
      for i = 1, 3 do kill(name('q', i), ' dead reason=' .. ('%01'):rep(300)) end
      c:send(('@65535 OPEN\r\n@65535 SUB %s %s\r\n'):format(name('q', 1), ('s'):rep(255)))
      for _ = 1, 2 do c:expect_line '@65535 OK' end
      local m = c:expect_msg(nil, 65535)
      assert.equal('3', m.headers['x-death-total'])
      assert.equal(('%'):rep(128), m.headers['x-death-publish-id'])
      assert.equal(('\1'):rep(256), m.headers['x-death-reason-text'])
      assert.is_true(#m.line > 65536 + 5000 and #m.line + 2 <= 73728, #m.line)
    end)

    it('is routed and filtered by its history', function()
      c:ok 'DECLARE exchange sort headers'
      declare 'expired'
      declare 'rejected'
      declare('q', 'dead-letter=sort')
      c:ok 'BIND expired sort - x-death-reason=expired'
      c:ok 'BIND rejected sort - x-death-first-queue=q'
      c:ok('PUB - q', 'x')
      kill 'q'
      assert.equal('x', take('rejected').payload)
      assert.equal(0, c:stats('expired').ready)
    end)

    describe('in a circle', function()
      it('is buried when it has died as often as death-limit says, and that is counted', function()
        declare('a', 'dead-letter=-/b death-limit=7')
        declare('b', 'dead-letter=-/a')
        c:ok('PUB - a', 'x')
        for _ = 1, 3 do
          kill 'a'
          kill 'b'
        end
        kill 'a'
        kill 'b' -- the eighth death, in a queue with the default
        local m = kill 'a'
        assert.equal('8', m.headers['x-death-total'])
        assert.is_truthy(wait.poll(function() return c:stats('a').buried == 1 end))
        local s = c:stats 'a'
        assert.same({ 1, 0, 4 }, { s.death_limited, s.ready, s.dead_lettered })
        assert.is_true(c:document('STATS').death_limited >= 1)
        broker:expect_log "queue 'a' of vhost '[^']*': a message has reached death%-limit=7; it is buried"
        -- It is not lost, and whoever knows better may go on with it.
        assert.equal('1', c:ok 'KICK a')
        c:ok('ACK ' .. take('a').tag)
      end)

      it('that nobody consumes, where a ttl alone drives it, ends buried', function()
        declare('a', 'dead-letter=-/b ttl=1ms')
        declare('b', 'dead-letter=-/a ttl=1ms')
        for i = 1, 5 do c:ok('PUB - a', tostring(i)) end
        assert.is_truthy(wait.poll(function() return c:stats('a').buried + c:stats('b').buried == 5 end))
        assert.same({ 5, 0, 0 }, { c:stats('a').death_limited + c:stats('b').death_limited, c:stats('a').ready,
          c:stats('b').ready })
        for _, queue in ipairs { 'a', 'b' } do
          for _, m in ipairs(peek(queue, 'buried')) do
            assert.equal('50:expired:a 50:expired:b', m.headers['x-death-counts'])
          end
        end
      end)

      it('is a retry loop when its queue of pauses has a ttl', function()
        declare('work', 'dead-letter=-/pause')
        declare('pause', 'dead-letter=-/work ttl=1ms')
        c:ok('PUB - work', 'x')
        for _ = 1, 10 do kill 'work' end
        local m = take 'work'
        assert.equal('10:rejected:work 10:expired:pause', m.headers['x-death-counts'])
        c:ok('ACK ' .. m.tag)
      end)

      it('of a queue that dead-letters to itself ends', function()
        declare('q', 'dead-letter=-/q retry=none death-limit=3')
        c:ok('PUB - q', 'x')
        for _ = 1, 4 do kill('q', '') end
        assert.is_truthy(wait.poll(function() return c:stats('q').buried == 1 end))
        assert.equal(1, c:stats('q').death_limited)
        assert.equal('3:nack:q', c:peek('q state=buried')[1].headers['x-death-counts'])
      end)

      it('goes 50 rounds of a loop of two queues before that', function()
        declare('work', 'dead-letter=-/rest')
        declare('rest', 'dead-letter=-/work')
        c:ok('PUB - work', 'x')
        for _ = 1, 50 do
          kill 'work'
          kill 'rest'
        end
        assert.equal('50:rejected:work 50:rejected:rest', take('work').headers['x-death-counts'])
        assert.equal(0, c:document('STATS work').death_limited)
        c:ok 'NACK 1-1000 dead'
        assert.is_truthy(wait.poll(function() return c:stats('work').buried == 1 end))
      end)
    end)
  end)
end

describe('the history of a dead letter', function()
  it('survives kill -9 of broker and Redis, and goes on', function()
    local broker = Broker.start()
    local c = broker:connect()
    c:ok 'DECLARE queue a dead-letter=-/b'
    c:ok 'DECLARE queue b dead-letter=-/a'
    local line = 'PUB - a'
    for i = 1, 64 do line = ('%s h:n%d=%d'):format(line, i, i) end
    c:ok(line, 'x')
    c:ok(('NACK %s dead'):format(c:get('a wait=20s')[1].tag))
    c:ok(('NACK %s dead'):format(c:get('b wait=20s')[1].tag))
    -- Before Redis has forgotten the originals they may return, too.
    assert.is_truthy(wait.poll(function()
      return broker:redis_cli('HLEN', broker:key('a', 'msg')) == '1'
        and broker:redis_cli('HLEN', broker:key('b', 'msg')) == '0' and c:stats('a').ready == 1
    end))
    broker:kill9_all()
    broker:restart()
    c = broker:connect()
    local m = c:get('a wait=20s')[1]
    local own, deaths = split(m)
    assert.equal('64', own.n64)
    assert.equal('1:rejected:a 1:rejected:b', deaths.counts)
    c:ok(('NACK %s dead'):format(m.tag))
    local _, last = split(c:get('b wait=20s')[1])
    assert.equal('2:rejected:a 1:rejected:b', last.counts)
    assert.equal('a', last['first-queue'])
    broker:expect_clean_stop()
  end)

  it('begins with the last death where version 0.1.0 told of that alone', function()
    -- A script may set what a client may not, in a body that such a version left in Redis.
    local broker = Broker.start { args = { '--fsync', 'no' } }
    local c = broker:connect()
    c:ok 'DECLARE queue dead dead-letter=-/end'
    c:ok 'DECLARE queue end'
    local id = c:ok('PUB - dead h:y-death-queue=old h:y-death-reason=timeout h:y-death-exchange=x h:y-death-key=k',
      'a'):match '^%x+'
    broker:redis_cli('EVAL', [[
      local body = redis.call('HGET', KEYS[1], ARGV[1])
      redis.call('HSET', KEYS[1], ARGV[1], (body:gsub('y%-death%-', 'x-death-')))]], '1',
      broker:key('dead', 'msg'), id)
    broker:kill9()
    broker:restart()
    c = broker:connect()
    local m = c:get('dead wait=20s')[1]
    assert.equal('old', m.headers['x-death-queue'])
    c:ok(('NACK %s dead'):format(m.tag))
    local _, deaths = split(c:get('end wait=20s')[1])
    assert.same({ 'old', 'timeout', 'x', 'k' }, { deaths['first-queue'], deaths['first-reason'],
      deaths['first-exchange'], deaths['first-key'] })
    assert.is_nil(deaths['first-time'])
    assert.same({ 'dead', '2', '1:timeout:old 1:rejected:dead' }, { deaths.queue, deaths.total, deaths.counts })
    broker:expect_clean_stop()
  end)

  it('is not written by filters and schedules', function()
    local broker = Broker.start { args = { '--fsync', 'no' }, rules = { ['filter/forge.lua'] = [[
      return {
        match = { exchange = "-", key = "forged" },
        publish = function(msg) msg.headers["x-death-queue"] = "q" end,
      }]] } }
    local c = broker:connect()
    c:ok 'DECLARE queue forged'
    assert.match("^ERR rule filter/forge.lua:3: a header whose name begins with x%-death%- is the broker's: a filter "
      .. 'may remove it, not write it', c:request('PUB - forged', 'a'))
    broker:expect_clean_stop()
  end)
end)
