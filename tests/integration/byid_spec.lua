-- A message by its id, in whatever state it is: FIND, GET id=, REMOVE, RESCHEDULE, KICK id=.
local Broker = require 'support.broker'
local traffic = require 'support.traffic'
local wait = require 'support.wait'

local WINDOW = { '--window-messages', '16', '--fsync', 'no' }
local NONE = '0000000000000001'

---@param c Client
---@param queue string
---@param options string?
---@return string id
local function publish(c, queue, options)
  local words = ('PUB - %s%s'):format(queue, options and ' ' .. options or '')
  return (c:ok(words, 'text'):match '^(%x+) 1$')
end

---@param c Client
---@param queue string
---@param count integer
---@param options string?
---@return string[] ids
local function publish_many(c, queue, count, options)
  local ids = {}
  c:send((('PUB - %s%s 4\r\ntext\r\n'):format(queue, options and ' ' .. options or '')):rep(count))
  for i = 1, count do ids[i] = c:expect '^OK (%x+) 1$' end
  return ids
end

---@param c Client
---@param queue string
---@param id string
---@return Delivery
local function get(c, queue, id)
  c:send(('GET %s id=%s\r\n'):format(queue, id))
  c:expect_line 'OK 1'
  return c:expect_msg()
end

local function find(c, queue, id) return c:document(('FIND %s %s'):format(queue, id)) end

local function missing(id) return 'ERR not-found the queue has no message ' .. id end

-- The same of queues of all kinds: with a backlog, with several shards, in memory.
local kinds = {
  { name = 'a durable queue', declare = '' },
  { name = 'a durable queue of four shards', declare = ' shards=4 sharding=round_robin' },
  { name = 'a queue in memory', declare = ' durable=0' },
}

describe('a message by its id', function()
  local broker, c

  setup(function() broker = Broker.start { args = WINDOW } end)
  teardown(function() broker:destroy() end)
  before_each(function() c = broker:enter_vhost() end)
  after_each(function() c:close() end)

  local function declare(options) c:ok('DECLARE queue jobs' .. (options or '')) end

  local function fail_once(id)
    local m = get(c, 'jobs', id)
    c:ok('NACK ' .. m.tag)
    return m
  end

  for _, kind in ipairs(kinds) do
    describe('of ' .. kind.name, function()
      it('is found in each state', function()
        declare(kind.declare .. ' retry=none')
        local ids = publish_many(c, 'jobs', 200, 'pri=7 h:tier=gold')
        local late = publish(c, 'jobs', 'delay=1h ttl=2h')
        for _, id in ipairs { ids[1], ids[100], ids[200] } do
          local found = find(c, 'jobs', id)
          assert.equal(id, found.id)
          assert.equal('ready', found.state)
          assert.equal(7, found.priority)
          assert.equal('gold', found.headers.tier)
          assert.equal('text', found.payload)
          assert.equal(4, found.size)
          assert.equal(0, found.deliveries)
          assert.is_nil(found.holder)
        end
        local delayed = find(c, 'jobs', late)
        assert.equal('delayed', delayed.state)
        assert.equal(delayed.ts + 3600000, delayed.due)
        assert.equal(delayed.ts + 10800000, delayed.expires)
        get(c, 'jobs', ids[150])
        local held = find(c, 'jobs', ids[150])
        assert.equal('unacked', held.state)
        assert.equal(1, held.deliveries)
        assert.same({ 0, '-', held.held }, { held.holder.channel, held.holder.sid, held.holder.since })
        fail_once(ids[180])
        local buried = find(c, 'jobs', ids[180])
        assert.equal('buried', buried.state)
        assert.is_true(buried.buried >= buried.ts)
        assert.same({ 1, 'nack', 1 }, { buried.failures, buried.reason, buried.failed.nack })
        c:expect_answer('FIND jobs ' .. NONE, missing(NONE))
        c:expect_answer('GET jobs id=' .. NONE, missing(NONE))
      end)

      it('is taken, whatever is before it, and no other moves', function()
        declare(kind.declare)
        local ids = publish_many(c, 'jobs', 100)
        local late = publish(c, 'jobs', 'delay=1h')
        for n, id in ipairs { ids[90], ids[5], late } do
          local m = get(c, 'jobs', id)
          assert.same({ id, 1, tostring(n) }, { m.options.id, m.attempt, m.tag })
          c:expect_answer('GET jobs id=' .. id, ('ERR busy message %s is held already; FIND says by whom'):format(id))
          c:ok('ACK ' .. n)
          c:expect_answer('FIND jobs ' .. id, missing(id))
        end
        c:send(('GET jobs id=%s ack=auto\r\n'):format(ids[50]))
        c:expect_line 'OK 1'
        assert.equal('-', c:expect_msg().tag)
        traffic.expect_counts(c, 'jobs', { ready = 97, delayed = 0, unacked = 0 })
        local _, rest = traffic.take(c, 'jobs', 97)
        local seen, last = {}, ''
        for _, m in ipairs(rest) do seen[m.options.id] = true end
        for i, id in ipairs(ids) do assert.equal(i ~= 90 and i ~= 5 and i ~= 50, seen[id] or false) end
        if not kind.declare:find 'shards' then
          for _, m in ipairs(rest) do
            assert.is_true(last < m.options.id)
            last = m.options.id
          end
        end
      end)

      it('is removed, and its holder has lost it', function()
        declare(kind.declare .. ' retry=none')
        local ids = publish_many(c, 'jobs', 100)
        local late = publish(c, 'jobs', 'delay=1h')
        fail_once(ids[60])
        get(c, 'jobs', ids[70])
        local words = table.concat({ ids[1], ids[2], ids[99], ids[60], ids[70], late, NONE, ids[1] }, ' ')
        c:expect_answer('REMOVE jobs ' .. words, 'OK 6')
        c:expect_answer('REMOVE jobs ' .. words, 'OK 0')
        assert.matches('^ERR lease%-lost', c:request 'ACK 2')
        traffic.expect_counts(c, 'jobs', { ready = 95, delayed = 0, unacked = 0, buried = 0 })
        assert.equal(6, c:stats('jobs').removed)
        assert.equal(95, #traffic.take(c, 'jobs', 95))
      end)

      it('gives the credit back to its holder when it is removed', function()
        declare(kind.declare)
        local ids = publish_many(c, 'jobs', 2)
        local consumer = broker:connect()
        consumer:ok 'SUB jobs s prefetch=1'
        local first = consumer:expect_msg()
        c:expect_answer('REMOVE jobs ' .. first.options.id, 'OK 1')
        local second = consumer:expect_msg()
        assert.same(ids[1] == first.options.id and ids[2] or ids[1], second.options.id)
        assert.matches('^ERR lease%-lost', consumer:request 'ACK 1')
        consumer:ok 'ACK 2'
        consumer:close()
      end)

      it('is rescheduled', function()
        declare(kind.declare .. ' retry=none')
        local ids = publish_many(c, 'jobs', 100)
        local late = publish(c, 'jobs', 'delay=1h')
        fail_once(ids[40])
        get(c, 'jobs', ids[41])
        local words = table.concat({ ids[3], ids[80], ids[40], ids[41], late, NONE }, ' ')
        c:expect_answer(('RESCHEDULE jobs %s delay=2h'):format(words), 'OK 4')
        for _, id in ipairs { ids[3], ids[80], ids[40], late } do
          local found = find(c, 'jobs', id)
          assert.equal('delayed', found.state)
          assert.is_true(found.due >= found.ts + 7200000)
          assert.equal(0, found.failures)
        end
        traffic.expect_counts(c, 'jobs', { ready = 96, delayed = 4, unacked = 1, buried = 0 })
        c:expect_answer(('RESCHEDULE jobs %s delay=0'):format(words), 'OK 4')
        traffic.expect_counts(c, 'jobs', { ready = 100, delayed = 0, unacked = 1 })
        c:expect_answer(('RESCHEDULE jobs %s delay=0'):format(ids[99]), 'OK 1')
        assert.equal(100, #traffic.take(c, 'jobs', 100))
      end)

      it('is kicked', function()
        declare(kind.declare .. ' retry=none')
        local ids = publish_many(c, 'jobs', 60)
        local late = publish(c, 'jobs', 'delay=1h')
        for i = 1, 60 do fail_once(ids[i]) end
        traffic.expect_counts(c, 'jobs', { ready = 0, buried = 60 })
        for _, id in ipairs { ids[55], ids[2], late } do
          c:expect_answer('KICK jobs id=' .. id, 'OK 1')
          c:expect_answer('KICK jobs id=' .. id, 'OK 0')
          assert.same({ 'ready', 0 }, { find(c, 'jobs', id).state, find(c, 'jobs', id).failures })
        end
        c:expect_answer('KICK jobs id=' .. NONE, 'OK 0')
        traffic.expect_counts(c, 'jobs', { ready = 3, buried = 58, delayed = 0 })
      end)
    end)
  end

  it('is gone for good, moved for good, after kill -9 of broker and Redis', function()
    declare ' retry=none'
    local ids = publish_many(c, 'jobs', 100)
    local late = publish(c, 'jobs', 'delay=1h')
    fail_once(ids[30])
    c:expect_answer(('REMOVE jobs %s %s'):format(ids[10], ids[90]), 'OK 2')
    c:expect_answer(('RESCHEDULE jobs %s %s delay=1h'):format(ids[11], ids[91]), 'OK 2')
    c:expect_answer(('RESCHEDULE jobs %s delay=0'):format(late), 'OK 1')
    c:expect_answer('KICK jobs id=' .. ids[30], 'OK 1')
    broker:kill9_all()
    broker:restart()
    c = broker:connect()
    for _, id in ipairs { ids[10], ids[90] } do c:expect_answer('FIND jobs ' .. id, missing(id)) end
    for _, id in ipairs { ids[11], ids[91] } do assert.equal('delayed', find(c, 'jobs', id).state) end
    for _, id in ipairs { late, ids[30], ids[50] } do assert.equal('ready', find(c, 'jobs', id).state) end
    traffic.expect_counts(c, 'jobs', { ready = 97, delayed = 2, buried = 0, unacked = 0 })
  end)

  it('is found in a queue in memory that takes many steps to index, while it is consumed', function()
    c:ok 'DECLARE queue jobs durable=0'
    local ids = publish_many(c, 'jobs', 40000)
    -- Pipelined: the index is being built while others are taken, held and returned.
    c:send(('FIND jobs %s\r\nGET jobs max=100\r\nNACK 1-50\r\nREMOVE jobs %s %s %s\r\n'):format(
      ids[39999], ids[39998], ids[20000], ids[60]))
    assert.equal(ids[39999], c:expect_json().id)
    c:expect_line 'OK 100'
    for _ = 1, 100 do c:expect_msg() end
    c:expect_line 'OK 50'
    c:expect_line 'OK 3'
    traffic.expect_counts(c, 'jobs', { ready = 39948, unacked = 49 })
    for i = 1, 40000, 1999 do
      if i ~= 20000 then assert.equal(ids[i], find(c, 'jobs', ids[i]).id) end
    end
  end)

  it('counts failures by their reasons, across restarts, and reads what older brokers wrote', function()
    declare ' retry=fixed retry.delay=0 ack-timeout=1h'
    local id, old = publish(c, 'jobs'), publish(c, 'jobs')
    for _ = 1, 2 do fail_once(id) end
    local holder = broker:connect()
    get(holder, 'jobs', id)
    holder:close()
    local function failed() return find(c, 'jobs', id).failed end
    assert(wait.poll(function() return failed().gone == 1 end))
    assert.same({ nack = 2, gone = 1 }, failed())
    local tries = broker:key('jobs', 'tries')
    assert(wait.poll(function() return broker:redis_cli('HGET', tries, id) == '3 3 gone nack=2 gone=1' end))
    broker:redis_cli('HSET', tries, old, '7 5 timeout')
    broker:kill9_all()
    broker:restart()
    c = broker:connect()
    assert.same({ nack = 2, gone = 1 }, failed())
    local found = find(c, 'jobs', old)
    assert.same({ 7, 5, 'timeout', nil }, { found.deliveries, found.failures, found.reason, next(found.failed) })
  end)

  it('is given to nobody whose channel closes meanwhile, or while the queue is paused', function()
    declare()
    local ids = publish_many(c, 'jobs', 100)
    c:send(('@1 OPEN\r\n@1 GET jobs id=%s\r\n@1 CLOSE\r\n'):format(ids[90]))
    c:expect_line '@1 OK'
    c:expect '^@1 '
    c:drain_until '^@1 OK$'
    assert(wait.poll(function() return find(c, 'jobs', ids[90]).state == 'ready' end))
    c:ok 'PAUSE jobs out'
    c:expect_answer('GET jobs id=' .. ids[1], "ERR busy queue 'jobs' is paused")
    c:expect_answer('REMOVE jobs ' .. ids[1], 'OK 1')
  end)

  it('is refused with one clear error', function()
    declare()
    for request, answer in pairs {
      ['FIND jobs'] = 'ERR syntax FIND needs <queue> and <id>: <id> is missing',
      ['FIND jobs 12'] = "ERR syntax '12': expected the id of a message, 16 hex digits",
      ['FIND none ' .. NONE] = "ERR not-found there is no queue 'none' in vhost '" .. broker.vhost .. "'",
      ['REMOVE jobs'] = 'ERR syntax REMOVE needs ids of messages, 16 hex digits each, or match=',
      ['REMOVE jobs ' .. NONE .. ' x'] = "ERR syntax 'x': expected the id of a message, 16 hex digits",
      ['RESCHEDULE jobs ' .. NONE] =
        'ERR syntax RESCHEDULE needs delay=, a duration from 0s to 3660d, or pri=, a number from 0 to 255',
      ['GET jobs wait=1s id=' .. NONE] =
        'ERR syntax GET id= takes one message of one queue, now: without max=, wait= and match=',
      ['KICK jobs 3 id=' .. NONE] = 'ERR syntax KICK takes a number or id=, not both',
    } do c:expect_answer(request, answer) end
    c:send(('REMOVE jobs %s quiet\r\n'):format(NONE))
    c:expect_nothing()
  end)

  it('is found and removed from the command line', function()
    declare()
    local id = publish(c, 'jobs')
    assert.matches('state +ready', (broker:cli('find', 'jobs', id)))
    assert.matches('1', (broker:cli('remove', 'jobs', id, NONE)))
    c:expect_answer('FIND jobs ' .. id, missing(id))
  end)

  it('leaves a shard that was deleted alone', function()
    declare()
    local ids = publish_many(c, 'jobs', 100)
    c:send(('REMOVE jobs %s\r\nDELETE queue jobs\r\nFIND jobs %s\r\n'):format(ids[90], ids[90]))
    c:expect '^[OE][KR]'
    c:expect_line 'OK'
    c:expect "^ERR not%-found there is no queue 'jobs' in vhost "
  end)
end)

describe('a message that was taken out of the backlog by its id', function()
  it('is where it was after a crash', function()
    local broker = Broker.start { redis = {}, args = { '--window-messages', '16' } }
    local c = broker:connect()
    local redis = broker.redis
    c:ok 'DECLARE queue jobs retry=none'
    local ready, delayed, buried = publish(c, 'jobs'), publish(c, 'jobs', 'delay=1h'), publish(c, 'jobs')
    get(c, 'jobs', buried)
    c:ok 'NACK 1'
    local due, since = find(c, 'jobs', delayed).due, find(c, 'jobs', buried).buried
    local function key(set) return broker:key('jobs', set) end
    assert(wait.poll(function() return redis:cli('ZCARD', key 'buried') == '1' end))
    broker:kill9()
    -- As the script leaves them that takes them out.
    local base = 1 << 52
    for set, taken in pairs {
      ready = { ready, -(base + 1) },
      delayed = { delayed, -(base + 4 * due + 2) },
      buried = { buried, -(base + 4 * since + 3) },
    } do
      assert.equal('1', redis:cli('ZREM', key(set), taken[1]))
      redis:cli('ZADD', key 'unack', taken[2], taken[1])
    end
    broker:restart()
    c = broker:connect()
    assert.equal('ready', find(c, 'jobs', ready).state)
    assert.same({ 'delayed', due }, { find(c, 'jobs', delayed).state, find(c, 'jobs', delayed).due })
    assert.same({ 'buried', since, 1 },
      { find(c, 'jobs', buried).state, find(c, 'jobs', buried).buried, find(c, 'jobs', buried).deliveries })
    assert(wait.poll(function() return redis:cli('ZCARD', key 'unack') == '0' end))
    broker:expect_clean_stop()
  end)

  it('is refused while Redis is out of memory, and taken after that', function()
    local broker = Broker.start { redis = {}, args = { '--window-messages', '16' } }
    local c = broker:connect()
    c:ok 'DECLARE queue jobs'
    local ids = publish_many(c, 'jobs', 100)
    broker.redis:cli('CONFIG', 'SET', 'maxmemory', '1')
    assert.equal('ready', find(c, 'jobs', ids[90]).state)
    assert.matches('^ERR store OOM', c:request('REMOVE jobs ' .. ids[90]))
    c:expect_answer('REMOVE jobs ' .. ids[1], 'OK 1')
    broker.redis:cli('CONFIG', 'SET', 'maxmemory', '0')
    c:expect_answer(('REMOVE jobs %s %s'):format(ids[90], ids[91]), 'OK 2')
    assert.equal(97, #traffic.take(c, 'jobs', 97))
    broker:expect_clean_stop()
  end)

  it('is acted on once, whenever the connection to Redis is lost', function()
    local broker = Broker.start { redis = {}, args = { '--window-messages', '16' } }
    local c = broker:connect()
    c:ok 'DECLARE queue jobs'
    local ids = publish_many(c, 'jobs', 400)
    for i = 21, 400, 10 do
      c:send(('REMOVE jobs %s\r\nRESCHEDULE jobs %s delay=0\r\nGET jobs id=%s ack=auto\r\n'):format(
        ids[i], ids[i + 1], ids[i + 2]))
      broker.redis:cli('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
      c:expect_line 'OK 1'
      c:expect_line 'OK 1'
      c:expect_line 'OK 1'
      assert.equal(ids[i + 2], c:expect_msg().options.id)
    end
    traffic.expect_counts(c, 'jobs', { ready = 324, delayed = 0, unacked = 0 })
    assert.equal(324, #traffic.take(c, 'jobs', 324))
    broker:expect_clean_stop()
  end)
end)

describe('a message by its id without a store', function()
  it('is found, taken, moved and removed', function()
    local broker = Broker.start { args = { '--store', 'none' } }
    local c = broker:connect()
    c:ok 'DECLARE queue jobs'
    local ids = publish_many(c, 'jobs', 10)
    assert.equal('ready', find(c, 'jobs', ids[9]).state)
    assert.equal(ids[9], get(c, 'jobs', ids[9]).options.id)
    c:expect_answer(('RESCHEDULE jobs %s delay=1h'):format(ids[8]), 'OK 1')
    c:expect_answer(('REMOVE jobs %s %s %s'):format(ids[9], ids[8], ids[1]), 'OK 3')
    traffic.expect_counts(c, 'jobs', { ready = 7, delayed = 0, unacked = 0 })
    broker:expect_clean_stop()
  end)
end)
