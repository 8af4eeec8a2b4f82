-- What the shipped scripts remember: through reloads, restarts and kills, and left
-- alone by everything that only asks.
local Broker = require 'support.broker'
local shell = require 'support.shell'
local wait = require 'support.wait'

--- A shipped filter as a user makes it: copied, active, its constants changed.
local function filter(name, given, match)
  return ('return tide.use("%s", { match = { %s }, options = { %s } })'):format(name, match or '', given or '')
end

describe('what the shipped scripts remember', function()
  local broker, c

  local function start(rules, args)
    broker = Broker.start { rules = rules, args = args or { '--fsync', 'no' } }
    c = broker:connect()
  end

  after_each(function()
    if c then c:close() end
    c = nil
    broker:destroy()
  end)

  local function reload() return c:document 'RULES reload' end

  --- The same file with other bytes, and a new generation for it.
  local function change(path, text)
    local before = c:document('RULES status').generation
    broker:write_rule(path, text .. '\n-- ' .. tostring(before) .. '\n')
    assert(wait.poll(function() return c:document('RULES status').generation > before end))
  end

  local function again(run)
    c:close()
    c = nil
    run()
    c = broker:connect()
  end

  local function kill9()
    again(function() broker:kill9_all() broker:run() end)
  end

  local function restart()
    again(function() broker:restart() end)
  end

  --- The answer to a publish: OK, or the code of the error.
  local function publish(queue, options)
    c:send(('PUB - %s %s 1\r\nx\r\n'):format(queue, options))
    local word, code = c:expect '^(%u+) ?(%l*)'
    return word == 'OK' and word or code
  end

  --- Publish without waiting for each answer.
  local function many(n, queue, options, payload)
    local lines = {}
    for i = 1, n do lines[i] = ('PUB - %s %s %d\r\n%s\r\n'):format(queue, options, #payload, payload) end
    c:send(table.concat(lines))
    for _ = 1, n do c:expect '^OK' end
  end

  --- Take the next n messages; gives how many there were of each payload.
  local function take(queue, n)
    local counts, order = {}, {}
    while #order < n do
      c:send(('GET %s max=%d wait=10s ack=auto\r\n'):format(queue, math.min(100, n - #order)))
      local got = tonumber(c:expect '^OK (%d+)$')
      assert.is_true(got > 0, 'only ' .. #order .. ' messages came')
      for _ = 1, got do
        local payload = c:expect_msg().payload
        counts[payload] = (counts[payload] or 0) + 1
        order[#order + 1] = payload
      end
    end
    return counts, order
  end

  --- Until Redis has all that is shared.
  local function written()
    assert(wait.poll(function() return c:document('RULES status').shared.unwritten == 0 end))
  end

  describe('priority=fair', function()
    local FAIR = shell.read_file 'rules/priority/fair.lua'

    it('keeps 3 to 1 within 5 % with reloads and changes of its file in the middle', function()
      start {}
      c:ok 'DECLARE queue q priority=fair priority.weights=a:3'
      local total = { a = 0, b = 0 }
      many(300, 'q', 'h:tenant=a', 'a')
      many(300, 'q', 'h:tenant=b', 'b')
      for round = 1, 20 do
        if round % 4 == 0 then change('priority/fair.lua', FAIR) else reload() end
        local counts = take('q', 100)
        for tenant, n in pairs(counts) do
          total[tenant] = total[tenant] + n
          many(n, 'q', 'h:tenant=' .. tenant, tenant)
        end
      end
      assert.is_true(math.abs(total.a / total.b / 3 - 1) < 0.05, total.a / total.b)
    end)

    it('gives a tenant that floods no second share at a reload', function()
      start {}
      c:ok 'DECLARE queue q priority=fair shards=2'
      c:ok 'DECLARE queue one priority=fair'
      many(1000, 'one', 'h:tenant=flood', 'flood')
      take('one', 100)
      for _, renew in ipairs { reload, function() change('priority/fair.lua', FAIR) end,
        function() broker:signal 'HUP' broker:expect_log 'generation 4 is active' end } do
        renew()
        -- As much of the flood again, and a quiet tenant after it: they take turns.
        many(50, 'one', 'h:tenant=flood', 'flood')
        many(20, 'one', 'h:tenant=quiet', 'quiet')
        local _, order = take('one', 40)
        local quiet = 0
        for _, payload in ipairs(order) do quiet = quiet + (payload == 'quiet' and 1 or 0) end
        assert.is_true(quiet >= 19, quiet)
        take('one', 2)
      end
      for _, script in ipairs(c:document('RULES status').scripts) do
        assert.equal(0, script.errors, script.last_error)
      end
    end)

    it('ranks as if there were no reloads, however many there are', function()
      start {}
      c:ok 'DECLARE queue q priority=fair'
      local other = broker:connect()
      -- Reloads that come while one is under way are one: a slow machine needs more of them.
      local count = 0
      repeat
        for _ = 1, 10 do
          count = count + 1
          other:send 'RULES reload\r\n'
          many(1, 'q', 'h:tenant=flood', 'flood')
          local m = c:document 'EXPLAIN - q h:tenant=flood'
          assert.equal(count + 1, m.queues[1].rank)
          assert.equal(1, c:document('EXPLAIN - q h:tenant=new').queues[1].rank)
        end
        for _ = 1, 10 do other:expect_json() end
      until count >= 300 and c:document('RULES status').generation > 100
      other:close()
    end)
  end)

  it('sharding=round_robin goes on with the next shard', function()
    start {}
    c:ok 'DECLARE queue q shards=4 sharding=round_robin'
    for i = 0, 11 do
      assert.equal(i % 4, c:document('EXPLAIN - q').queues[1].shard)
      many(1, 'q', 'pri=0', 'x')
      if i % 3 == 2 then reload() end
    end
  end)

  describe('dedupe', function()
    local PATH = 'filter/90-dedupe.lua'

    it('remembers ids through reloads, changes, restarts and kills', function()
      start { [PATH] = filter 'dedupe' }
      c:ok 'DECLARE queue q'
      for i, renew in ipairs { reload, function() change(PATH, filter 'dedupe') end, restart, kill9 } do
        local id = 'h:message-id=order-' .. i
        assert.equal('OK', publish('q', id))
        written() -- a kill loses what was not
        renew()
        for n = 1, i do assert.equal('rejected', publish('q', 'h:message-id=order-' .. n)) end
      end
      assert.equal(4, c:document('STATS q').ready)
      -- Vhosts are worlds of their own.
      local shop = broker:connect()
      shop:enter_vhost 'shop'
      shop:ok 'DECLARE queue q'
      shop:ok('PUB - q h:message-id=order-1', 'x')
      shop:close()
    end)

    it('has room for the ids of one vhost, however many another sends', function()
      start({ ['filter/90-dedupe.lua'] = filter 'dedupe' }, { '--store', 'none', '--max-shared', '40' })
      local other = broker:connect()
      other:enter_vhost 'other'
      for _, client in ipairs { c, other } do client:ok 'DECLARE exchange x fanout' end
      local refused = 0
      for i = 1, 60 do
        local line = c:request('PUB x k h:message-id=' .. i, 'x')
        if line:find 'there is no room for its message%-id' then refused = refused + 1 end
      end
      assert.equal(30, refused)
      for i = 1, 5 do other:ok('PUB x k h:message-id=' .. i, 'x') end
      local holders = c:document('RULES status').shared.holders
      table.sort(holders, function(a, b) return a.entries > b.entries end)
      assert.same({ 'filter/90-dedupe.lua', '/', 30 }, { holders[1].file, holders[1].vhost, holders[1].entries })
      assert.same({ 'filter/90-dedupe.lua', 'other', 5 }, { holders[2].file, holders[2].vhost, holders[2].entries })
    end)

    it('refuses when it is full, which is seen, and goes on when there is room again', function()
      start({ [PATH] = filter('dedupe', 'window = "2s"') }, { '--fsync', 'no', '--max-shared', '3' })
      c:ok 'DECLARE queue q'
      for i = 1, 3 do assert.equal('OK', publish('q', 'h:message-id=' .. i)) end
      c:send 'PUB - q h:message-id=4 1\r\nx\r\n'
      c:expect '^ERR rejected there is no room for its message%-id; try again later %(filter/90%-dedupe.lua%)$'
      assert.equal('rejected', publish('q', 'h:message-id=1'))
      broker:expect_log 'no room for another message%-id'
      assert.equal('OK', publish('q', 'h:other=1'))
      assert(wait.poll(function() return publish('q', 'h:message-id=4') == 'OK' end))
    end)
  end)

  for _, shape in ipairs { 'false', 'true' } do
    it('rate_limit keeps its buckets through reloads, changes, restarts and kills, shape = ' .. shape, function()
      local PATH = 'filter/10-rate.lua'
      local text = filter('rate_limit', 'rate = "2/h", burst = 4, delay_max = "5m", shape = ' .. shape)
      start { [PATH] = text }
      c:ok 'DECLARE queue q'
      for i, renew in ipairs { reload, function() change(PATH, text) end, restart, kill9 } do
        assert.equal('OK', publish('q', 'h:tenant=t'), i)
        written()
        renew()
      end
      assert.equal('rejected', publish('q', 'h:tenant=t'))
      assert.equal('OK', publish('q', 'h:tenant=other'))
    end)
  end

  it('rate_limit shapes a burst into the rate', function()
    start { ['filter/10-rate.lua'] = filter('rate_limit', 'rate = 0.01, burst = 2, shape = true, delay_max = "4m"') }
    c:ok 'DECLARE queue q'
    for _ = 1, 2 do assert.equal(0, c:document('EXPLAIN - q h:tenant=t').delay_ms or 0) publish('q', 'h:tenant=t') end
    for _ = 1, 2 do assert.equal('OK', publish('q', 'h:tenant=t')) end
    local stats = c:document 'STATS q'
    assert.same({ 2, 2 }, { stats.ready, stats.delayed })
    c:send 'PUB - q h:tenant=t 1\r\nx\r\n'
    c:expect '^ERR rejected the queue of this sender is %d+ ms long'
  end)

  it('keeps counters with labels through a restart, which empties gauges', function()
    start { ['filter/10-measure.lua'] = [[
      local depth = tide.gauge("depth")
      return { match = {}, publish = function(msg)
        tide.counter("orders", { who = msg.headers.who }):incr()
        depth:set(7)
      end }]] }
    c:ok 'DECLARE queue q'
    publish('q', 'h:who=ann')
    publish('q', 'h:who=ann')
    assert.equal(7, c:document('STATS').metrics[1].value)
    restart()
    assert.equal(2, c:document('STATS').counters['orders{who="ann"}'])
    assert.same({}, c:document('STATS').metrics)
    publish('q', 'h:who=ann')
    assert.equal(3, c:document('STATS').counters['orders{who="ann"}'])
  end)

  describe('is left alone by', function()
    local RULES = {
      ['filter/10-count.lua'] = [[
        local seen = tide.counter "seen"
        return { match = {}, publish = function(msg)
          msg.headers.n = seen:incr()
          tide.shared.set("last", msg.key)
        end }]],
      ['filter/20-rate.lua'] = filter('rate_limit', 'rate = "1/h", burst = 3'),
      ['filter/90-dedupe.lua'] = filter 'dedupe',
    }

    local function open()
      start(RULES)
      c:ok 'DECLARE queue q shards=3 sharding=round_robin priority=fair'
      publish('q', 'h:tenant=t h:message-id=1')
      written()
    end

    --- The rest is as if there had been this one publish.
    local function untouched()
      assert.equal(1, c:document('STATS').counters.seen)
      assert.equal(0, c:document('RULES status').shared.unwritten)
      local m = c:document('EXPLAIN - q h:tenant=t h:message-id=2').queues[1]
      assert.same({ 1, 1 }, { m.shard, m.rank })
      assert.equal('OK', publish('q', 'h:tenant=t h:message-id=2'))
      assert.equal('OK', publish('q', 'h:tenant=t h:message-id=3'))
      assert.equal('rejected', publish('q', 'h:tenant=t h:message-id=4'))
      assert.equal(4, c:document('STATS').counters.seen)
    end

    it('EXPLAIN', function()
      open()
      local before = broker:redis_cli('HGETALL', '{tide}:rules:shared')
      for _ = 1, 20 do
        local document = c:document 'EXPLAIN - q h:tenant=t h:message-id=2'
        assert.equal(1, #document.queues)
      end
      assert.equal(before, broker:redis_cli('HGETALL', '{tide}:rules:shared'))
      untouched()
    end)

    it('a replay, which goes by the clock of then', function()
      start {}
      c:ok 'DECLARE queue q'
      for i = 1, 5 do publish('q', 'h:tenant=t h:message-id=' .. i) end
      c:close()
      broker:write_rule('filter/10-count.lua', RULES['filter/10-count.lua'])
      broker:restart()
      c = broker:connect()
      publish('q', 'h:tenant=t')
      written()
      -- One in 20 ms: of publishes that come so slowly none is refused.
      local rate = filter('rate_limit', 'rate = 50, burst = 1', 'key = "q"')
      local dir = broker:copy_rules('next', { ['filter/20-rate.lua'] = rate })
      local last = 0
      --- When it was published, by the broker's clock.
      local function published(request)
        return tonumber(c:ok(request, 'x'):match '^%x+', 16) >> 22
      end
      for _ = 1, 5 do
        assert(wait.poll(function() return published 'PUB - nobody' > last + 20 end))
        last = published 'PUB - q h:tenant=slow'
      end
      written()
      local seen = c:document('STATS').counters.seen
      for _ = 1, 3 do
        local replay = c:document('RULES replay ' .. dir)
        assert.equal(0, replay.changed, require('dkjson').encode(replay.changes))
      end
      assert.equal(seen, c:document('STATS').counters.seen)
      assert.equal(0, c:document('RULES status').shared.unwritten)
    end)

    it('rules in the shadow', function()
      open()
      c:document('RULES shadow ' .. broker.rules .. ' share=100')
      -- Looked at by both: counted, taken and remembered once.
      assert.equal('rejected', publish('q', 'h:tenant=other h:message-id=1'))
      assert.equal(2, c:document('STATS').counters.seen)
      assert.equal('OK', publish('q', 'h:tenant=t h:message-id=2'))
      assert.equal('OK', publish('q', 'h:tenant=t h:message-id=3'))
      assert.equal('rejected', publish('q', 'h:tenant=t h:message-id=4'))
      assert.equal(5, c:document('STATS').counters.seen)
      assert.equal(4, c:document('RULES shadow status').compared)
    end)
  end)
end)

describe('a schedule', function()
  local broker
  after_each(function() broker:destroy() end)

  local function schedule(b, name)
    local c = b:connect()
    for _, s in ipairs(c:document('RULES status').schedules) do
      if s.name == name then
        c:close()
        return s
      end
    end
  end

  local function in_vhost(name)
    local c = broker:connect()
    c:enter_vhost(name)
    return c
  end

  it('publishes in the vhost that it names, and says when there is none', function()
    broker = Broker.start { args = { '--fsync', 'no' }, rules = { ['schedule/shop.lua'] = [[
      return {
        every = "100ms", vhost = "shop", missed = "skip",
        run = function(broker)
          local jobs = broker.queue("jobs")
          broker.publish { key = "jobs", payload = jobs and tostring(jobs.ready) or "none" }
          broker.publish { exchange = "x", key = "k", payload = "routed" }
        end,
      }]], ['schedule/root.lua'] = 'return { every = "1h", run = function() end }' } }
    broker:expect_log "schedule 'shop': there is no vhost 'shop'; DECLARE vhost shop makes it"
    local s = schedule(broker, 'shop')
    assert.equal('shop', s.vhost)
    assert.matches("^there is no vhost 'shop'", s.result)
    assert.is_true(s.failures > 0)
    assert.equal('/', schedule(broker, 'root').vhost)
    local c = in_vhost 'shop'
    c:ok 'DECLARE exchange x fanout'
    c:ok 'DECLARE queue routed'
    c:ok 'BIND routed x -'
    c:ok 'DECLARE queue jobs'
    local root = broker:connect()
    root:ok 'DECLARE queue jobs'
    local function ready(queue)
      return c:document('STATS ' .. queue).ready
    end
    assert(wait.poll(function() return ready 'jobs' >= 3 and ready 'routed' >= 3 end))
    assert.equal('ok', schedule(broker, 'shop').result)
    -- Through a kill: what was begun is found in this vhost.
    c:close()
    root:close()
    broker:kill9_all()
    broker:run()
    c = in_vhost 'shop'
    local before = ready 'jobs'
    assert(wait.poll(function() return ready 'jobs' > before end))
    root = broker:connect()
    assert.equal(0, root:document('STATS jobs').ready)
    root:close()
    c:close()
    broker:expect_clean_stop()
  end)

  it('writes down the ids of what filters copy, so that they come once too', function()
    broker = Broker.start { rules = {
      ['schedule/ticker.lua'] = [[
        return { every = "1d", run = function(broker, tick)
          broker.publish { key = "ticks", payload = tick.ms .. " a" }
          broker.publish { key = "ticks", payload = tick.ms .. " b" }
        end }]],
      ['filter/10-copy.lua'] = [[
        return { match = { exchange = "-", key = "ticks" }, publish = function(msg)
          msg:copy { key = "audit" }
          if msg.payload:find "b" then msg:copy { key = "moved" } end
          msg.key = "moved"
        end }]],
    } }
    local c = broker:connect()
    for _, queue in ipairs { 'ticks', 'audit', 'moved' } do c:ok('DECLARE queue ' .. queue) end
    local day = 86400 * 1000
    local tick = math.floor(require('socket').gettime() * 1000) // day * day
    local a = c:ok('PUB - moved', tick .. ' a'):match '^%x+'
    local copy = c:ok('PUB - audit', tick .. ' a'):match '^%x+'
    c:close()
    -- As if it had been killed after message `a` and its copy.
    broker:redis_cli('HSET', '{tide}:rules:schedule', 'ticker',
      ('%d %d 0 %s+%s,00000000000000b0+00000000000000b1+00000000000000b2'):format(tick - day, tick, a, copy))
    broker:kill9()
    broker:run()
    assert(wait.poll(function()
      return broker:redis_cli('HGET', '{tide}:rules:schedule', 'ticker') == tostring(tick)
    end))
    c = broker:connect()
    local function drain(queue)
      local n = tonumber((c:ok('GET ' .. queue .. ' max=100 ack=auto'):match '^%d+'))
      local found = {}
      for i = 1, n do
        local m = c:expect_msg()
        found[i] = m.payload:match ' (.)$' .. ' ' .. m.options.id
      end
      table.sort(found)
      return found
    end
    assert.same({ 'a ' .. a, 'b 00000000000000b0', 'b 00000000000000b2' }, drain 'moved')
    assert.same({ 'a ' .. copy, 'b 00000000000000b1' }, drain 'audit')
    assert.same({}, drain 'ticks')
    c:close()
    broker:expect_clean_stop()
  end)
end)
