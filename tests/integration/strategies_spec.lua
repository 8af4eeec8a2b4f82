-- The shipped strategies in a real broker on a real Redis. The window is small, so
-- that what is asked of an order is asked of the part that only Redis has, too.
local Broker = require 'support.broker'
local json = require 'dkjson'
local wait = require 'support.wait'

local function id_ms(id)
  return tonumber(id, 16) >> 22
end

describe('a shipped strategy', function()
  local broker, c, queue
  local count = 0

  setup(function() broker = Broker.start { args = { '--fsync', 'no', '--window-messages', '16' } } end)
  teardown(function() if broker then broker:destroy() end end)

  before_each(function()
    count = count + 1
    queue = 'q' .. count
    c = broker:connect()
  end)
  after_each(function() c:close() end)

  local function declare(options)
    c:ok(('DECLARE queue %s %s'):format(queue, options))
  end

  --- Publish without waiting for each answer; gives the ids.
  local function publish_all(list)
    local lines, ids = {}, {}
    for i, m in ipairs(list) do
      lines[i] = ('PUB - %s %s %d\r\n%s\r\n'):format(m.to or queue, m.options or 'pri=0', #m.payload, m.payload)
    end
    c:send(table.concat(lines))
    for i = 1, #list do ids[i] = c:expect '^OK (%x+) 1$' end
    return ids
  end

  local function publish(payload, options)
    return publish_all({ { payload = payload, options = options } })[1]
  end

  local function many(n, payload, options)
    local list = {}
    for i = 1, n do list[i] = { payload = payload:gsub('#', i), options = options } end
    return list
  end

  --- Take the next n messages, a few at a time; gives their payloads.
  local function take(n)
    local payloads = {}
    while #payloads < n do
      c:send(('GET %s max=%d wait=10s ack=auto\r\n'):format(queue, math.min(7, n - #payloads)))
      local got = tonumber(c:expect '^OK (%d+)$')
      assert.is_true(got > 0, 'only ' .. #payloads .. ' messages came')
      for _ = 1, got do payloads[#payloads + 1] = c:expect_msg().payload end
    end
    return payloads
  end

  local function stats()
    return c:document(('STATS %s'):format(queue))
  end

  local function positions(payloads, wanted)
    local found = {}
    for i, payload in ipairs(payloads) do
      if payload:find(wanted) then found[#found + 1] = i end
    end
    return found
  end

  describe('priority=fair', function()
    it('serves a small tenant in its share of a flooded queue', function()
      declare 'priority=fair priority.by=tenant'
      publish_all(many(400, 'flood #', 'h:tenant=flood'))
      publish_all(many(20, 'small #', 'h:tenant=small'))
      publish_all(many(100, 'more #', 'h:tenant=flood'))
      assert.is_true(stats().in_memory < 100)
      local found = positions(take(45), '^small')
      assert.equal(20, #found)
      for i, position in ipairs(found) do assert.is_true(position <= 2 * i, position) end
      -- What is left is the flood, in its order, and complete.
      local left = take(475)
      assert.same({}, positions(left, '^small'))
      assert.equal('flood 400', left[375])
      assert.equal('more 100', left[475])
    end)

    it('serves one that comes while the flood is being served', function()
      declare 'priority=fair'
      publish_all(many(200, 'flood #', 'h:tenant=flood'))
      take(100)
      publish_all(many(10, 'late #', 'h:tenant=late'))
      local found = positions(take(21), '^late')
      assert.equal(10, #found)
    end)

    it('keeps weights', function()
      declare 'priority=fair priority.by=plan priority.weights=gold:3,free:1'
      publish_all(many(150, 'free #', 'h:plan=free'))
      publish_all(many(150, 'gold #', 'h:plan=gold'))
      local gold = #positions(take(160), '^gold')
      assert.is_true(math.abs(gold - 120) <= 2, gold)
    end)

    it('keeps its order through a restart', function()
      declare 'priority=fair'
      publish_all(many(100, 'flood #', 'h:tenant=flood'))
      publish_all(many(10, 'small #', 'h:tenant=small'))
      c:close()
      broker:restart()
      c = broker:connect()
      assert.equal(10, #positions(take(21), '^small'))
      assert.equal(89, #take(89))
    end)

    it('lets no flood pass by what waited through a restart', function()
      declare 'priority=fair'
      publish_all(many(100, 'flood #', 'h:tenant=flood'))
      take(50)
      publish_all(many(10, 'small #', 'h:tenant=small'))
      c:close()
      broker:restart()
      c = broker:connect()
      publish_all(many(200, 'more #', 'h:tenant=flood'))
      assert.equal(10, #positions(take(40), '^small'))
    end)

    it('lets nobody pay for what was purged, or has expired', function()
      declare 'priority=fair'
      local function expect_turns()
        publish_all(many(20, 'other #', 'h:tenant=other'))
        publish_all(many(10, 'was #', 'h:tenant=flood'))
        assert.equal(10, #positions(take(21), '^was'))
        take(9)
      end
      publish_all(many(300, 'flood #', 'h:tenant=flood'))
      c:ok(('PURGE %s'):format(queue))
      expect_turns()
      publish_all(many(300, 'flood #', 'h:tenant=flood ttl=1ms'))
      local other = broker:connect() -- who takes what has not expired yet
      other:ok(('SUB %s s1 ack=auto'):format(queue))
      assert.is_truthy(wait.poll(function() return stats().ready == 0 end))
      other:close()
      assert.is_truthy(wait.poll(function() return stats().consumers == 0 end))
      expect_turns()
    end)

    it('refuses weights that make no sense', function()
      c:send(('DECLARE queue %s priority=fair priority.weights=gold\r\n'):format(queue))
      c:expect "^ERR %S+ priority=fair: .*'gold' is not tenant:weight with a weight above 0"
    end)
  end)

  it('priority=aging lets the urgent overtake', function()
    declare 'priority=aging priority.step=1h'
    publish_all(many(50, 'old #'))
    publish_all(many(5, 'urgent #', 'pri=2'))
    publish_all(many(5, 'very #', 'pri=9'))
    local payloads = take(60)
    for i = 1, 5 do
      assert.equal('very ' .. i, payloads[i])
      assert.equal('urgent ' .. i, payloads[5 + i])
    end
    for i = 1, 50 do assert.equal('old ' .. i, payloads[10 + i]) end
  end)

  it('priority=aging lets nothing wait for ever', function()
    declare 'priority=aging priority.step=1ms'
    local first, between = publish 'old', 0
    repeat
      between = between + 1
    until id_ms(publish 'between') - id_ms(first) > 20
    publish('urgent', 'pri=5')
    local payloads = take(between + 2)
    assert.equal('old', payloads[1])
    -- It overtook those of the last milliseconds at most.
    assert.is_true(positions(payloads, 'urgent')[1] > 1)
  end)

  it('priority=due_time goes by when a message was due, not by when it came', function()
    declare 'priority=due_time'
    publish('delayed', 'delay=1s')
    publish_all(many(40, 'at once #'))
    assert.is_truthy(wait.poll(function() return stats().delayed == 0 end))
    local payloads = take(41)
    assert.equal('delayed', payloads[41])
  end)

  it('priority=deadline serves what must be done first', function()
    declare 'priority=deadline'
    local list = {}
    for i = 1, 60 do
      local how = i % 3
      list[i] = { payload = tostring(i), options = how == 0 and ('ttl=%dm'):format(i)
        or how == 1 and ('h:deadline=%dm'):format(i) or ('h:deadline=%ds'):format(60 * i) }
    end
    list[61] = { payload = 'whenever' }
    for i = 61, 2, -1 do
      local other = math.random(1, i)
      list[i], list[other] = list[other], list[i]
    end
    publish_all(list)
    local payloads = take(61)
    for i = 1, 60 do assert.equal(tostring(i), payloads[i]) end
    assert.equal('whenever', payloads[61])
  end)

  --- How many ready messages each shard has, of `state`.
  local function shards_of(state)
    local counts = {}
    for _, m in ipairs(c:peek(('%s 100 state=%s'):format(queue, state or 'ready'))) do
      counts[m.shard + 1] = (counts[m.shard + 1] or 0) + 1
    end
    return counts
  end

  it('sharding=least_loaded fills the shards evenly, and first what has run empty', function()
    declare 'shards=4 sharding=least_loaded'
    publish_all(many(40, '#'))
    assert.same({ 10, 10, 10, 10 }, shards_of())
    -- Hold all, and acknowledge those of one shard: what is held counts as load.
    c:send(('GET %s max=40\r\n'):format(queue))
    c:expect '^OK 40$'
    local by_id, tags = {}, {}
    for _ = 1, 40 do
      local m = c:expect_msg()
      by_id[m.options.id] = m.tag
    end
    for _, m in ipairs(c:peek(('%s 100 state=unacked'):format(queue))) do
      if m.shard == 2 then tags[#tags + 1] = by_id[m.id] end
    end
    assert.equal(10, #tags)
    assert.equal('OK 10', c:request('ACK ' .. table.concat(tags, ' ')))
    publish_all(many(10, 'new #'))
    assert.same({ [3] = 10 }, shards_of())
    publish_all(many(4, 'newer #'))
    assert.same({ 1, 1, 11, 1 }, shards_of())
  end)

  it('sharding=consistent keeps a key in its shard, and is remembered', function()
    declare 'shards=8 sharding=consistent'
    c:ok(('DECLARE exchange %s topic'):format(queue))
    c:ok(('BIND %s %s #'):format(queue, queue))
    local used, n = {}, 0
    for i = 1, 60 do
      local function explain()
        return c:document(('EXPLAIN %s key.%d'):format(queue, i))
      end
      local first = explain()
      local shard = first.queues[1].shard
      assert.is_true(first.pure)
      assert.equal(shard, explain().queues[1].shard)
      if not used[shard] then
        used[shard], n = true, n + 1
      end
    end
    assert.is_true(n >= 7, n)
  end)

  it('sharding=random uses every shard', function()
    declare 'shards=4 sharding=random'
    publish_all(many(100, '#'))
    local counts = shards_of()
    for i = 1, 4 do assert.is_true(counts[i] >= 5, i) end
  end)

  local function fail_next(attempt)
    c:send(('GET %s wait=10s\r\n'):format(queue))
    c:expect_line 'OK 1'
    local m = c:expect_msg()
    assert.equal(attempt, m.attempt)
    assert.equal('OK 1', c:request('NACK ' .. m.tag))
    return m
  end

  local function expect_dead(payload)
    c:send(('GET %s.dead wait=10s ack=auto\r\n'):format(queue))
    c:expect_line 'OK 1'
    assert.equal(payload, c:expect_msg().payload)
    assert.equal(0, stats().ready + stats().delayed + stats().unacked)
  end

  it('retry=schedule follows its list to the dead-letter queue', function()
    c:ok(('DECLARE queue %s.dead'):format(queue))
    declare(('retry=schedule retry.delays=10ms,0,30ms dead-letter=-/%s.dead'):format(queue))
    publish 'job'
    for attempt = 1, 4 do fail_next(attempt) end
    expect_dead 'job'
  end)

  it('retry=schedule waits as long as it says', function()
    declare 'retry=schedule retry.delays=1h'
    publish 'job'
    fail_next(1)
    local m = c:peek(('%s 1 state=delayed'):format(queue))[1]
    assert.is_true(math.abs(m.due - m.ts - 3600000) < 60000)
  end)

  it('retry=none dead-letters at once', function()
    c:ok(('DECLARE queue %s.dead'):format(queue))
    declare(('retry=none dead-letter=-/%s.dead'):format(queue))
    publish 'job'
    fail_next(1)
    expect_dead 'job'
  end)

  it('retry=fixed waits the same each time, then gives up', function()
    c:ok(('DECLARE queue %s.dead'):format(queue))
    declare(('retry=fixed retry.delay=5ms retry.max=3 dead-letter=-/%s.dead'):format(queue))
    publish 'job'
    for attempt = 1, 3 do fail_next(attempt) end
    expect_dead 'job'
  end)

  describe('that is simulated', function()
    local function simulate(request)
      return c:document(('RULES simulate retry %s'):format(request))
    end

    local function column(document, name)
      local values = {}
      for i, row in ipairs(document.attempts) do values[i] = row[name] end
      return values
    end

    it('has the timetable that a queue with its options has', function()
      local document = simulate 'schedule delays=10ms,0,30ms'
      assert.equal('retry/schedule.lua', document.script)
      assert.same({ 10, 0, 30 }, column(document, 'delay_ms'))
      assert.same({ 0, 10, 10, 40 }, column(document, 'at_ms'))
      assert.same({ 'retry', 'retry', 'retry', 'dead-letter' }, column(document, 'happens'))
      assert.same(document, simulate 'schedule retry.delays=10ms,0,30ms')
    end)

    it('takes the reason, the limits and the ack-timeout', function()
      assert.same({ 0, 70000, 140000 },
        column(simulate 'fixed reason=timeout failures=3', 'at_ms'))
      assert.same({ 0, 11000 },
        column(simulate 'fixed reason=timeout ack-timeout=1s failures=2', 'at_ms'))
      local document = simulate 'fixed reason=gone delivery-limit=2'
      assert.equal('gone', document.reason)
      assert.equal('delivery-limit', document.attempts[2].by)
      assert.equal('dead-letter', document['end'])
      assert.equal(19, #column(simulate 'exponential delivery-limit=0 max=20', 'delay_ms'))
    end)

    it('leaves no trace', function()
      local function scripts()
        local all = c:document('RULES status').scripts
        for _, script in ipairs(all) do script.memory_bytes = nil end -- garbage comes and goes
        return all
      end
      local before = scripts()
      simulate 'exponential jitter=1'
      assert.same(before, scripts())
    end)

    it('is refused with what is wrong', function()
      local function refused(request, pattern)
        c:send('RULES ' .. request .. '\r\n')
        c:expect(pattern)
      end
      refused('simulate', '^ERR syntax RULES simulate takes retry, login, access or declare$')
      refused('simulate priority fifo', '^ERR syntax RULES simulate takes retry')
      refused('simulate retry nope', '^ERR not%-found .*there are: exponential fixed')
      refused('simulate retry fixed dely=1s', '^ERR mismatch .*delay max')
      refused('simulate retry fixed delay=soon', '^ERR mismatch .*duration')
      refused('simulate retry fixed reason=bored', '^ERR syntax reason=bored: expected nack, timeout or gone$')
      refused('simulate retry fixed failures=0', '^ERR syntax failures=0: expected a number from 1 to 1000$')
      refused('simulate retry fixed delivery-limit=x', '^ERR syntax delivery%-limit=x')
      refused('simulate retry fixed ack-timeout=1ms', '^ERR syntax ack%-timeout=1ms')
      refused('simulate retry fixed delay=1s retry.delay=2s', "^ERR syntax option 'delay' appears twice$")
      refused('status now', "^ERR syntax RULES status has no flag 'now'; it takes: none$")
      refused('reload now=1', "^ERR syntax RULES reload has no option 'now'; it takes: none$")
    end)

    it('is printed as docs/rules.md shows it', function()
      local file = assert(io.open 'docs/rules.md')
      local text, shown = file:read 'a', 0
      file:close()
      for command, output in text:gmatch '\n%$ tidemq (rules simulate [^\n]+)\n(.-\n)```' do
        local words = {}
        for word in command:gmatch '%S+' do words[#words + 1] = word end
        assert.equal(output, (broker:cli(table.unpack(words))))
        shown = shown + 1
      end
      assert.is_true(shown >= 1)
    end)

    it('is printed as a timetable by the command line', function()
      local output, status = broker:cli('rules', 'simulate', 'retry', 'schedule', 'delays=500ms,1h')
      assert.equal(0, status)
      assert.matches('^ATTEMPT +AT +DELAY +HAPPENS\n +1 +0s +500ms +retry\n +2 +500ms +1h +retry\n'
        .. ' +3 +1h0%.500s +%- +dead%-letter\n$', output)
      output = broker:cli('rules', 'simulate', 'retry', 'fixed', '--failures', '2', '--reason', 'gone')
      assert.matches('It would go on; see %-%-failures%.\n$', output)
      output = broker:cli('rules', 'simulate', 'retry', 'fixed', 'max=100')
      assert.matches("The queue's delivery%-limit ends it, not the script%.\n$", output)
      local document = json.decode((broker:cli('rules', 'simulate', 'retry', 'none', '--json')))
      assert.equal('dead-letter', document['end'])
      output, status = broker:cli('rules', 'simulate', 'retry', 'nope')
      assert.equal(1, status)
      assert.matches('^tidemq: not%-found: ', output)
      for _, words in ipairs { { 'simulate' }, { 'simulate', 'priority', 'fifo' }, { 'reload', 'now' },
        { 'simulate', 'retry', 'fixed', '--reason', 'bored' }, { 'simulate', 'retry', 'fixed', '--failures', '0' } } do
        output, status = broker:cli('rules', table.unpack(words))
        assert.equal(2, status)
        assert.matches('see tidemq help rules\n$', output)
      end
    end)
  end)
end)
