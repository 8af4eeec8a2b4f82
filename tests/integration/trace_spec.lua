-- TRACE: what happens to a message, from its publish on, is told to whoever follows it.
local Broker = require 'support.broker'
local json = require 'dkjson'
local users = require 'support.users'
local verbs = require 'support.verbs'
local wait = require 'support.wait'

-- A hundred of them take a second or more.
local LOOKS = wait.limit() * 100

local STAMP = [[
return {
  match = { exchange = "orders" },
  publish = function(msg)
    if msg.headers.no then return false, msg.headers.no end
    if msg.headers.copy then msg:copy { exchange = "", key = msg.headers.copy } end
    if msg.headers.stamp then msg.headers.stamped = "yes" end
  end,
}
]]

--- The events until one that satisfies the condition, which is the last.
local function events(c, is_last)
  local all = {}
  repeat
    all[#all + 1] = json.decode((c:expect '^EVT trace ({.*})$'))
  until is_last(all[#all])
  return all
end

local function until_what(what, n)
  return function(event)
    if event.what == what then n = (n or 1) - 1 end
    return event.what == what and (n or 0) <= 0
  end
end

local function words(all)
  local list = {}
  for i, event in ipairs(all) do list[i] = event.what end
  return table.concat(list, ' ')
end

for _, durable in ipairs { '1', '0' } do
  describe(('a trace, with durable=%s,'):format(durable), function()
    local broker, c, watch

    setup(function()
      broker = Broker.start { args = { '--fsync', 'no' }, rules = { ['filter/50-stamp.lua'] = STAMP } }
    end)
    teardown(function() broker:expect_clean_stop() end)
    before_each(function()
      c = broker:enter_vhost()
      watch = broker:connect()
      c:ok 'DECLARE exchange orders topic'
      c:ok('DECLARE queue dead shards=1 durable=' .. durable)
      c:ok('DECLARE queue q shards=1 retry=fixed retry.delay=1h dead-letter=-/dead durable=' .. durable)
      c:ok 'BIND q orders eu.#'
    end)
    after_each(function()
      c:close()
      watch:close()
    end)

    it('tells of publish, decision, confirm, delivery and ack', function()
      watch:ok 'TRACE orders eu.*'
      local id = c:ok('PUB orders eu.paid h:stamp=1', 'hello'):match '^(%x+) 1$'
      c:ok('PUB orders us.paid', 'not followed')
      c:get 'q'
      c:ok 'ACK 1'
      local all = events(watch, until_what 'acked')
      assert.equal('published confirmed delivered acked', words(all))
      local before = 0
      for _, event in ipairs(all) do
        assert.equal(id, event.id)
        assert.is_true(event.ms >= before)
        before = event.ms
      end
      local published = all[1]
      assert.same({ 'orders', 'eu.paid', 5 }, { published.exchange, published.key, published.size })
      assert.is_nil(published.payload)
      local filter = published.decision.filters[1]
      assert.same({ 'filter/50-stamp.lua', 6, 'stamped' }, { filter.script, filter.line, filter.changes[1].name })
      local visit = published.decision.exchanges[1]
      assert.same({ 'orders', 'shipped/routing/topic.lua', 'eu.#', 'q' },
        { visit.exchange, visit.script, visit.patterns[1].pattern, visit.patterns[1].queue })
      local pick = published.decision.queues[1]
      assert.same({ 'q', 0, 0, 'shipped/priority/fifo.lua' }, { pick.queue, pick.shard, pick.rank, pick.priority })
      assert.equal(1, all[2].queues)
      assert.same({ 'q', 0, '-', 1, 1 },
        { all[3].queue, all[3].channel, all[3].sid, all[3].tag, all[3].attempt })
      assert.equal(published.connection, all[3].connection)
      assert.same({ 'q', 'number' }, { all[4].queue, type(all[4].held_ms) })
    end)

    it('tells the same of a route that is remembered', function()
      c:ok('PUB orders eu.paid', 'before')
      watch:ok 'TRACE orders'
      c:ok('PUB orders eu.paid', 'after')
      local decision = events(watch, until_what 'confirmed')[1].decision
      assert.is_true(decision.cached)
      assert.equal('eu.#', decision.exchanges[1].patterns[1].pattern)
      assert.equal('q', decision.queues[1].queue)
    end)

    it('tells of failures, and follows the dead letter', function()
      watch:ok 'TRACE orders # payload'
      c:ok('PUB orders eu.paid', 'hello')
      c:get 'q'
      c:ok 'NACK 1'
      c:ok 'KICK q'
      local later = events(watch, until_what 'returned')
      assert.equal('hello', later[1].payload)
      local returned = later[#later]
      assert.same({ 'nack', 'delay', 'shipped/retry/fixed.lua', 1, 1 },
        { returned.reason, returned['then'], returned.by, returned.deliveries, returned.failures })
      assert.is_true(returned.delay_ms > 3500000 and returned.delay_ms <= 3600000)
      c:ok('RESCHEDULE q ' .. later[1].id .. ' delay=0')
      c:get 'q wait=5s'
      c:ok 'NACK 2 dead'
      c:get 'dead wait=5s'
      c:ok 'ACK 3'
      local all = events(watch, until_what 'acked')
      assert.equal('delivered returned dead-lettered published delivered acked', words(all))
      assert.same({ 2, 'rejected', 'dead-letter' }, { all[1].attempt, all[2].reason, all[2]['then'] })
      assert.equal(later[1].id, all[3].id)
      assert.same({ 'q', '-', 'dead' }, { all[3].queue, all[3].exchange, all[3].key })
      for i = 4, 6 do assert.equal(all[3].copy, all[i].id) end
      assert.equal('dead', all[4].decision.queues[1].queue)
    end)

    it('tells the line of the retry script, if it was asked', function()
      watch:ok 'TRACE orders'
      c:ok('PUB orders eu.paid', 'a')
      local got = c:get 'q'
      c:ok('NACK ' .. got[1].tag)
      local all = events(watch, until_what 'returned')
      local returned = all[#all]
      assert.same({ 'shipped/retry/fixed.lua', 'delay' }, { returned.by, returned['then'] })
      assert.is_true(returned.line > 1)
      c:ok('RESCHEDULE q ' .. all[1].id .. ' delay=0')
      got = c:get 'q'
      c:ok('NACK ' .. got[1].tag .. ' bury')
      all = events(watch, until_what 'returned')
      assert.is_nil(all[#all].line)
      assert.equal('bury', all[#all]['then'])
    end)

    it('tells of a subscription, of ack=auto and of a connection that goes', function()
      watch:ok 'TRACE orders'
      local worker = broker:connect()
      worker:ok 'SUB q s1'
      c:ok('PUB orders eu.paid', 'a')
      worker:expect_msg()
      worker:close()
      local all = events(watch, until_what 'returned')
      local delivered
      for _, event in ipairs(all) do delivered = event.what == 'delivered' and event or delivered end
      assert.equal('s1', delivered.sid)
      assert.is_true(delivered.connection ~= all[1].connection)
      assert.same({ 'gone', 'delay' }, { all[#all].reason, all[#all]['then'] })
      c:ok('RESCHEDULE q ' .. all[1].id .. ' delay=0')
      assert.equal(1, #c:get 'q ack=auto wait=5s')
      local last = events(watch, until_what 'delivered')
      assert.is_true(last[#last].auto_ack)
    end)

    it('tells why a publish was refused, and follows copies', function()
      watch:ok 'TRACE orders'
      assert.matches('^ERR rejected not today', c:request('PUB orders eu.paid h:no=not%20today', 'a'))
      local all = events(watch, until_what 'refused')
      assert.equal('published refused', words(all))
      assert.matches('not today', all[1].decision.rejected)
      assert.equal('rejected', all[2].code)
      c:ok('PUB orders eu.paid h:copy=dead', 'a')
      c:get 'dead'
      all = events(watch, until_what 'delivered')
      assert.equal('published copied confirmed delivered', words(all))
      assert.same({ all[1].id, all[4].id, 1, 'filter/50-stamp.lua' },
        { all[2].id, all[2].copy, all[2].number, all[2].by })
      assert.equal('dead', all[4].queue)
    end)

    it('tells of messages that expire and that overflow', function()
      c:ok('DECLARE queue short shards=1 max-length=1 overflow=drop-head durable=' .. durable)
      c:ok 'BIND short orders short'
      watch:ok 'TRACE orders'
      c:ok('PUB orders short', 'first')
      c:ok('PUB orders short', 'second')
      c:ok('PUB orders eu.brief ttl=1ms', 'third')
      local all = events(watch, until_what('returned', 2))
      local fates = {}
      for _, event in ipairs(all) do
        if event.what == 'returned' then fates[event.reason] = event['then'] end
      end
      assert.same({ maxlen = 'drop', expired = 'dead-letter' }, fates)
    end)

    it('tells of what a transaction publishes and settles', function()
      watch:ok 'TRACE orders'
      c:ok('PUB orders eu.paid', 'a')
      c:get 'q'
      c:ok 'BEGIN'
      c:ok('PUB orders eu.other', 'b')
      c:ok 'ACK 1'
      c:ok 'COMMIT'
      local all = events(watch, until_what 'acked')
      assert.equal('published confirmed delivered published acked', words(all))
      assert.equal(all[1].id, all[5].id)
      assert.equal('eu.other', all[4].key)
    end)

    it('tells of a topic: who reads, where, acks of ranges, and failures', function()
      c:ok('DECLARE topic t partitions=1 retry=fixed retry.delay=1h durable=' .. durable)
      c:ok 'BIND t orders log.#'
      watch:ok 'TRACE orders log.a'
      for i = 1, 100 do c:ok('PUB orders log.' .. (i % 50 == 0 and 'a' or 'b'), 'x') end
      c:get 't group=g max=100'
      c:ok 'ACK 1-99'
      c:ok 'NACK 100'
      local all = events(watch, until_what 'returned')
      assert.equal('published confirmed published confirmed delivered delivered acked returned', words(all))
      assert.same({ 't', 'g', 0, 49 }, { all[5].topic, all[5].group, all[5].partition, all[5].offset })
      assert.same({ 't', 'g', 0, 49 }, { all[7].topic, all[7].group, all[7].partition, all[7].offset })
      assert.same({ 't', 99, 'nack', 'delay' }, { all[8].topic, all[8].offset, all[8].reason, all[8]['then'] })
      assert.equal('shipped/retry/fixed.lua', all[8].by)
      assert.is_true(all[8].line > 1)
    end)
  end)
end

describe('a trace', function()
  local broker, c, watch

  setup(function() broker = Broker.start { args = { '--fsync', 'no' } } end)
  teardown(function() broker:expect_clean_stop() end)
  before_each(function()
    c = broker:enter_vhost()
    watch = broker:connect()
    c:ok 'DECLARE exchange x topic'
    c:ok 'DECLARE queue q shards=1'
    c:ok 'BIND q x #'
  end)
  after_each(function()
    c:close()
    watch:close()
  end)

  it('ends with its time, and says how many messages it followed', function()
    local all
    -- On a busy machine the time may be over before the message comes.
    assert(wait.poll(function()
      watch:ok 'TRACE x for=200ms'
      c:ok('PUB x k', 'a')
      all = events(watch, until_what 'end')
      return #all > 1
    end))
    assert.same({ what = 'end', why = 'time', messages = 1, dropped = 0 }, all[#all])
    c:ok('PUB x k', 'b')
    watch:ok 'TRACE x for=200ms'
    assert.equal('end', words(events(watch, until_what 'end')))
  end)

  it('follows as many messages as it is to, and tells of these until its end', function()
    watch:ok 'TRACE x max=2'
    for i = 1, 5 do c:ok('PUB x k' .. i, 'a') end
    c:get 'q max=5'
    local all = events(watch, until_what('delivered', 2))
    assert.equal('published confirmed published confirmed delivered delivered', words(all))
    assert.same({ 'k1', 'k2' }, { all[1].key, all[3].key })
  end)

  it('follows a share of the messages', function()
    local count = 0
    watch:expect_answer('@1 OPEN', '@1 OK')
    watch:expect_answer('@1 TRACE x sample=20% max=10000', '@1 OK')
    c:send(('PUB x k quiet 1\r\na\r\n'):rep(2000))
    c:ok 'PING'
    watch:send '@1 CLOSE\r\n'
    repeat
      local event = json.decode((watch:expect '^@1 EVT trace ({.*})$'))
      if event.what == 'published' then count = count + 1 end
    until event.what == 'end'
    assert.is_true(count > 250 and count < 550, count)
  end)

  it('is of its own vhost, of any exchange with *, and of - alone with -', function()
    local direct = broker:connect()
    local other = broker:enter_vhost()
    other:ok 'DECLARE exchange x topic'
    watch:ok 'TRACE *'
    direct:ok 'TRACE - q'
    other:request('PUB x k', 'a')
    c:ok('PUB x k', 'a')
    c:ok('PUB - q', 'a')
    local all = events(watch, until_what('confirmed', 2))
    assert.same({ 'x', '-' }, { all[1].exchange, all[3].exchange })
    assert.equal('-', events(direct, until_what 'confirmed')[1].exchange)
    other:close()
    direct:close()
  end)

  it('is refused where it cannot be, in one sentence', function()
    watch:ok 'TRACE x'
    for line, answer in pairs {
      ['TRACE x'] = 'ERR exists this channel has a trace already; it ends with its time, or with the channel',
      ['TRACE no'] = "ERR not-found there is no exchange 'no' in vhost '" .. broker.vhost .. "'",
      ['TRACE x order.*x'] = "ERR syntax the key 'order.*x' has a word with a wildcard in it; ",
      ['TRACE x k sample=0'] = 'ERR syntax sample=0: expected a percentage above 0, up to 100',
      ['TRACE x k for=2h'] = 'ERR syntax for=2h: expected ',
      ['TRACE x k max=0'] = 'ERR syntax max=0: expected a number from 1 to 10000',
    } do
      assert.equal(answer, watch:request(line):sub(1, #answer))
    end
    local others = {}
    for i = 1, 7 do
      others[i] = broker:connect()
      others[i]:ok 'TRACE x'
    end
    assert.equal('ERR limit the broker has at most 8 traces at a time', c:request 'TRACE x')
    for _, other in ipairs(others) do other:close() end
    -- Their ends are seen in a later turn.
    assert(wait.poll(function()
      local answer = c:request 'TRACE x'
      return answer == 'OK'
    end))
    c:send 'PUB x k 1\r\na\r\n'
    assert.equal(c:expect '^EVT trace {"what":"published",.*}$', watch:expect '^EVT trace {"what":"published",.*}$')
    c:expect '^EVT trace'
  end)

  it('drops events of a client that does not read, and says how many', function()
    watch:ok 'TRACE x max=10000 for=1h'
    -- Some MiB more than sockets and the output take.
    for _ = 1, 20 do
      c:send(('PUB x k quiet 1\r\na\r\n'):rep(500))
      c:ok 'PING'
    end
    watch:send '@1 OPEN\r\n'
    local seen = 0
    local line = watch:expect '^.+$'
    while line ~= '@1 OK' do
      seen = seen + 1
      line = watch:expect '^.+$'
    end
    -- What is told next comes behind the word about what was lost.
    c:get 'q max=1'
    local all = events(watch, until_what 'delivered')
    assert.equal('dropped delivered', words(all))
    assert.equal(20000, seen + all[1].events)
  end)

  it('is printed with the lines that chose the shard and the rank, and what follows a failure', function()
    local operator = broker:connect()
    operator:ok('DECLARE queue picked shards=4 sharding=hash sharding.by=tenant priority=fair '
      .. 'priority.by=tenant retry=fixed')
    local output = verbs.run(broker, [[
      cd ]] .. broker.dir .. [[;
      ']] .. Broker.binary() .. [[' trace - picked --for 60s >out2 2>err2 & pid=$!
      for i in $(seq ]] .. LOOKS .. [[); do tidemq list connections | grep -q tidemq-trace && break; sleep 0.01; done
      for i in $(seq 90); do tidemq pub --header tenant=a - picked x >/dev/null; grep -q confirmed out2 && break; done
      tidemq get picked --nack --max 100 >/dev/null
      for i in $(seq ]] .. LOOKS .. [[); do grep -q returned out2 && break; sleep 0.01; done
      kill $pid; wait $pid; grep -m 1 published out2; grep -m 1 returned out2; cat err2
    ]])
    assert.matches('; to picked/%d by sharding/hash%.lua:%d+ rank %d+ by priority/fair%.lua:%d+\n', output)
    assert.matches('returned +picked, nack: delay of %d+ ms, says retry/fixed%.lua:%d+\n', output)
    operator:close()
  end)

  it('is printed by tidemq trace, a line for each event', function()
    local output = verbs.run(broker, [[
      cd ]] .. broker.dir .. [[;
      ']] .. Broker.binary() .. [[' trace x 'a.#' --for 60s --payload >out 2>err & pid=$!
      for i in $(seq ]] .. LOOKS .. [[); do tidemq list connections | grep -q tidemq-trace && break; sleep 0.01; done
      for i in $(seq 90); do tidemq pub x a.b hello >/dev/null; grep -q confirmed out && break; done
      tidemq get q --max 100 >/dev/null
      for i in $(seq ]] .. LOOKS .. [[); do grep -q acked out && break; sleep 0.01; done
      kill $pid; wait $pid; echo status $?
      head -n 2 out; grep -m 1 delivered out; grep -m 1 acked out; cat err
    ]])
    local lines = {}
    for line in output:gmatch '[^\n]+' do lines[#lines + 1] = line end
    assert.equal('status 0', lines[1], output)
    assert.matches('^%x+ +%d+%.%d%d%d ms  published     x a%.b, 5 bytes, connection %d+, payload \'hello\'; ' ..
      'exchange \'x\' routing/topic%.lua:%d+; to q/0$', lines[2])
    assert.matches('^%x+ +%d+%.%d%d%d ms  confirmed     1 queue$', lines[3])
    assert.matches('^%x+ +%d+%.%d%d%d ms  delivered     q to connection %d+ channel 0 sid %-, attempt 1$', lines[4])
    assert.matches('^%x+ +%d+%.%d%d%d ms  acked         q, held for %d+ ms$', lines[5])
    assert.is_nil(lines[6])
  end)
end)

describe('tidemq trace', function()
  it('ends by itself, prints JSON, and says what is wrong', function()
    local broker = Broker.start { args = { '--store', 'none' } }
    verbs.tide(broker, 'declare', 'exchange', 'x', 'topic')
    assert.equal('{"what":"end","why":"time","messages":0,"dropped":0}\n',
      verbs.tide(broker, 'trace', 'x', '--for', '100ms', '--json'))
    assert.equal('tidemq: the trace has ended (time): 0 messages\n', verbs.tide(broker, 'trace', '-', '--for', '100ms'))
    verbs.refused(broker, 1, "^tidemq: not%-found: there is no exchange 'y' in vhost '/'\n$", 'trace', 'y')
    verbs.tide(broker, 'declare', 'queue', 'y')
    verbs.refused(broker, 1,
      "'y' in vhost '/'; what is published to the queue by its name has the exchange %- and the key 'y'\n$",
      'trace', 'y')
    verbs.refused(broker, 1, '^tidemq: syntax: sample=x', 'trace', 'x', '--sample', 'x')
    verbs.refused(broker, 2, '^tidemq trace: %-%-for', 'trace', 'x', '--for', '2h')
    broker:expect_clean_stop()
  end)
end)

describe('the permission to follow messages', function()
  it('is asked again when it is taken away', function()
    local broker = Broker.start { redis = {}, stopped = true }
    users.restore(broker.redis, {
      root = { tags = { 'admin' }, vhosts = { ['/'] = { configure = '.*', write = '.*', read = '.*' } } },
      eve = { tags = { 'monitor' }, vhosts = { ['/'] = { read = '^x$' } } },
    })
    broker:run()
    local root, eve = users.connect(broker, 'root'), users.connect(broker, 'eve')
    root:ok 'DECLARE exchange x topic'
    root:ok 'DECLARE exchange y topic'
    assert.matches("^ERR denied user 'eve' may not read from exchange 'y'", eve:request 'TRACE y')
    assert.matches('^ERR denied TRACE %* needs', eve:request 'TRACE *')
    assert.matches('^ERR denied TRACE of the default exchange', eve:request 'TRACE -')
    eve:ok 'TRACE x'
    root:ok('PUB x k', 'a')
    assert.equal('root', events(eve, until_what 'confirmed')[1].user)
    root:ok 'USER grant eve / read=^y$'
    assert.equal('denied', events(eve, until_what 'end')[1].why)
    root:ok('PUB x k', 'a')
    eve:ok 'PING'
    root:close()
    eve:close()
    broker:expect_clean_stop()
    broker:destroy()
  end)
end)
