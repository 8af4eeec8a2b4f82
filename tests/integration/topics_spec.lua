-- Topics: declared, bound, published to, and kept through crashes.
local Broker = require 'support.broker'
local wait = require 'support.wait'

--- Publish so many at once; the place of each: "<partition>:<offset>".
local function publish(c, topic, count, make)
  local places, lines = {}, {}
  for from = 1, count, 200 do
    local last = math.min(from + 199, count)
    for i = from, last do
      local exchange, key, payload = '-', topic, tostring(i)
      if make then exchange, key, payload = make(i) end
      lines[i - from + 1] = ('PUB %s %s %d\r\n%s\r\n'):format(exchange, key, #payload, payload)
    end
    c:send(table.concat(lines, '', 1, last - from + 1))
    for _ = from, last do places[#places + 1] = c:expect '^OK %x+ %d+ (%d+:%d+)$' end
  end
  return places
end

--- Per partition: how many places there are, which must be 0, 1, 2 ... from `ends` on.
local function expect_dense(places, ends)
  for _, place in ipairs(places) do
    local partition, offset = place:match '^(%d+):(%d+)$'
    assert.equal(ends[partition] or 0, tonumber(offset), place)
    ends[partition] = tonumber(offset) + 1
  end
  return ends
end

local function ends_of(c, topic)
  local ends = {}
  for _, p in ipairs(c:stats(topic).per_partition) do
    if p['end'] > 0 then ends[tostring(p.partition)] = p['end'] end
  end
  return ends
end

local function names(list)
  local all = {}
  for i, item in ipairs(list) do all[i] = item.name end
  return table.concat(all, ' ')
end

local function find(list, name)
  for _, item in ipairs(list) do
    if item.name == name then return item end
  end
end

describe('a topic', function()
  local broker, c

  setup(function() broker = Broker.start { args = { '--fsync', 'no' } } end)
  teardown(function() broker:expect_clean_stop() end)
  before_each(function() c = broker:enter_vhost() end)
  after_each(function() c:close() end)

  local function refused(line, pattern)
    assert.matches('^ERR ' .. pattern, c:request(line))
  end

  it('is declared again with the same options, and with no others', function()
    c:ok 'DECLARE topic t partitions=4 retention=7d keep-unread=a,b order=0'
    c:ok 'DECLARE topic t partitions=4 retention=168h keep-unread=a,b order=0'
    refused('DECLARE topic t', "mismatch topic 't' exists with other options: it has partitions=4, not partitions=8; "
      .. 'the option update changes that$')
    refused('DECLARE topic t partitions=4', 'mismatch .* it has order=0, not order=1$')
  end)

  it('names what it does not take', function()
    refused('DECLARE topic t shards=2', "syntax 'shards' is an option of queues: a topic takes durable partitions ")
    refused('DECLARE topic t colour=red', "syntax a topic has no option 'colour'; it takes: durable partitions ")
    refused('DECLARE topic t reshard', "syntax 'reshard' is an option of queues")
    refused('DECLARE queue q partitions=2', "syntax 'partitions' is an option of topics: a queue takes durable ")
    refused('DECLARE topic t partitions=65', 'syntax partitions=65: expected a number from 1 to 64$')
    refused('DECLARE topic t compact=all', 'syntax compact=all: expected key, or nothing$')
    refused('DECLARE topic t sharding=none', "not%-found sharding=none: there is no sharding script 'none'")
    refused('DECLARE topic t retry=fixed retry.x=1', 'mismatch ')
    refused('DECLARE topic -', 'syntax ')
    assert.same({}, c:document 'LIST topics')
  end)

  it('shares its name with no queue', function()
    c:ok 'DECLARE topic t'
    c:ok 'DECLARE queue q'
    refused('DECLARE queue t', "exists there is a topic 't': queues and topics of a vhost share their names$")
    refused('DECLARE topic q', "exists there is a queue 'q': queues and topics of a vhost share their names$")
    refused('DELETE queue t', "denied 't' is a topic: this request takes a queue$")
    refused('DELETE topic q', "denied 'q' is a queue: this request takes a topic$")
    c:ok 'DELETE topic t'
    c:ok 'DELETE queue q'
    c:ok 'DECLARE queue t'
    c:ok 'DECLARE topic q'
  end)

  it('is no queue to those who ask for one', function()
    c:ok 'DECLARE topic t'
    c:ok 'DECLARE queue q'
    local id = '0123456789abcdef'
    for _, line in ipairs {
      'FIND t ' .. id, 'REMOVE t ' .. id, 'RESCHEDULE t ' .. id .. ' delay=1s', 'KICK t', 'REDRIVE t',
      'PAUSE t in', 'RESUME t',
    } do
      refused(line, "denied 't' is a topic: this request takes a queue$")
    end
    refused('DELETE topic t if-empty', "syntax DELETE topic has no flag 'if%-empty'")
  end)

  it('is listed, with what its partitions have', function()
    c:ok 'DECLARE topic t partitions=2 retention=0 durable=0'
    c:ok 'DECLARE queue q'
    c:ok 'DECLARE topic empty'
    publish(c, 't', 10)
    local topics = c:document 'LIST topics'
    assert.equal('empty t', names(topics))
    local t = find(topics, 't')
    assert.equal(2, t.partitions)
    assert.equal(10, t.messages)
    assert.equal(10, t.appended)
    assert.is_true(t.bytes > 0)
    assert.is_false(t.durable)
    assert.same({ partitions = '2', retention = '0', durable = '0' }, t.options)
    assert.same({}, find(topics, 'empty').options)
    assert.is_true(find(topics, 'empty').durable)
    assert.equal('q', names(c:document 'LIST queues'))
    local all = c:document 'STATS'
    assert.is_true(all.topics >= 2)
    assert.is_true(all.logs.appended >= 10)
  end)

  it('says in STATS where each partition begins and ends', function()
    c:ok 'DECLARE topic t partitions=3 sharding=round_robin'
    publish(c, 't', 7)
    local stats = c:stats 'topic t'
    assert.equal('t', stats.topic)
    assert.equal(3, stats.partitions)
    assert.equal(7, stats.messages)
    assert.equal(7, stats.published)
    local all, sum = stats.per_partition, 0
    assert.equal(3, #all)
    for i, p in ipairs(all) do
      assert.equal(i - 1, p.partition)
      assert.equal(0, p.start)
      sum = sum + p['end']
      assert.is_true(p.bytes > 0)
      assert.is_true(p.last > 1.6e12)
    end
    assert.equal(7, sum)
    refused('STATS topic none', 'not%-found ')
  end)

  it('answers a publish with the place of the message, and offsets are dense', function()
    c:ok 'DECLARE topic t partitions=4 sharding=round_robin'
    local ends = expect_dense(publish(c, 't', 1000), {})
    assert.same(ends, ends_of(c, 't'))
    local partitions = 0
    for _, n in pairs(ends) do
      partitions = partitions + 1
      assert.equal(250, n)
    end
    assert.equal(4, partitions)
  end)

  it('keeps the messages of a key in one partition', function()
    c:ok 'DECLARE exchange x fanout'
    c:ok 'DECLARE topic t partitions=8'
    c:ok 'BIND t x -'
    local places = publish(c, nil, 200, function(i) return 'x', 'k' .. i % 20, 'a' end)
    expect_dense(places, {})
    local of_key = {}
    for i, place in ipairs(places) do
      local partition = place:match '^%d+'
      assert.equal(of_key[i % 20] or partition, partition)
      of_key[i % 20] = partition
    end
  end)

  it('takes what its bindings match, beside queues; the first topic is named', function()
    c:ok 'DECLARE exchange x topic'
    c:ok 'DECLARE topic one partitions=1'
    c:ok 'DECLARE topic two partitions=1'
    c:ok 'DECLARE queue q'
    c:ok 'BIND q x a.#'
    c:ok 'BIND one x #'
    c:ok 'BIND two x #'
    c:ok('PUB - two', 'before')
    assert.matches('^%x+ 3 0:[01] topics=2$', c:ok('PUB x a.b', 'm'))
    assert.matches('^%x+ 2 0:[12] topics=2$', c:ok('PUB x b', 'm'))
    assert.equal(2, c:stats('one').messages)
    assert.equal(3, c:stats('two').messages)
    assert.equal(1, c:stats('q').ready)
    for _, binding in ipairs(c:document 'LIST bindings') do
      assert.equal(binding.destination == 'q' and 'queue' or 'topic', binding.to)
    end
    c:ok 'UNBIND one x #'
    c:ok 'DELETE topic two'
    assert.matches('^%x+ 0$', c:ok('PUB x b', 'm'))
  end)

  it('is a target of alternates and of dead letters', function()
    c:ok 'DECLARE topic lost partitions=1'
    c:ok 'DECLARE exchange rest fanout'
    c:ok 'BIND lost rest -'
    c:ok 'DECLARE exchange x direct alternate=rest'
    assert.matches('^%x+ 1 0:0$', c:ok('PUB x nobody', 'm'))
    assert.equal('', c:ok 'DECLARE queue jobs retry=none dead-letter=-/lost')
    c:ok('PUB - jobs', 'm')
    local m = c:get('jobs')[1]
    c:ok('NACK ' .. m.tag)
    assert(wait.poll(function() return c:stats('lost').messages == 2 end), 'no dead letter came')
    assert.equal(0, c:stats('jobs').buried)
    assert.equal(1, c:stats('jobs').dead_lettered)
  end)

  it('is explained with its partition', function()
    c:ok 'DECLARE topic t partitions=8'
    local place = publish(c, 't', 1)[1]
    local q = c:document('EXPLAIN - t').queues[1]
    assert.equal('t', q.queue)
    assert.equal(tonumber(place:match '^%d+'), q.partition)
    assert.equal('sharding/hash.lua', q.sharding)
    assert.equal('retry/immediate.lua', q.retry)
    assert.is_true(q.partition_cached)
    for _, name in ipairs { 'shard', 'rank', 'priority', 'state' } do assert.is_nil(q[name]) end
    assert.matches('"queues":%[{"queue":"t","partition":%d}%]', broker:cli('request', 'RULES', 'recent', '1'))
    assert.equal(1, c:stats('t').messages)
  end)

  it('has the least loaded partition chosen by how much was appended', function()
    c:ok 'DECLARE topic t partitions=4 sharding=least_loaded'
    publish(c, 't', 40)
    for _, n in pairs(ends_of(c, 't')) do assert.equal(10, n) end
  end)

  describe('with expect=', function()
    it('appends only at that offset', function()
      c:ok 'DECLARE topic t partitions=1'
      assert.matches('^%x+ 1 0:0$', c:ok('PUB - t expect=0', 'm'))
      assert.equal("ERR mismatch partition 0 of topic 't' ends at 1, not at 0", c:request('PUB - t expect=0', 'm'))
      assert.matches('^%x+ 1 0:1$', c:ok('PUB - t expect=1', 'm'))
      -- Pipelined writers need not wait for the confirm.
      c:send('PUB - t expect=2 1\r\na\r\nPUB - t expect=3 1\r\nb\r\nPUB - t expect=3 1\r\nc\r\n')
      c:expect '^OK %x+ 1 0:2$'
      c:expect '^OK %x+ 1 0:3$'
      c:expect '^ERR mismatch .* ends at 4, not at 3$'
      assert.equal(4, c:stats('t').messages)
    end)

    it('stores nothing anywhere when one topic is elsewhere, or none takes it', function()
      c:ok 'DECLARE exchange x fanout'
      c:ok 'DECLARE topic one partitions=1'
      c:ok 'DECLARE topic two partitions=1'
      c:ok 'DECLARE queue q'
      for _, name in ipairs { 'one', 'two', 'q' } do c:ok('BIND ' .. name .. ' x -') end
      c:ok('PUB - two', 'm')
      assert.matches('^ERR mismatch partition 0 of topic ', c:request('PUB x k expect=0', 'm'))
      assert.equal(0, c:stats('one').messages)
      assert.equal(0, c:stats('q').ready)
      c:ok('PUB - one', 'm')
      assert.matches('^%x+ 3 0:1 topics=2$', c:ok('PUB x k expect=1', 'm'))
      assert.equal("ERR mismatch expect= names an offset, and no topic takes key 'q' from exchange '-'",
        c:request('PUB - q expect=0', 'm'))
      assert.equal(1, c:stats('q').ready)
      assert.matches('^ERR syntax expect=', c:request('PUB - one expect=last', 'm'))
    end)
  end)

  it('takes no publish ids and no expected offsets in a transaction', function()
    c:ok 'DECLARE topic t dedupe=1m'
    c:ok 'DECLARE queue q'
    c:ok 'BEGIN'
    c:ok('PUB - q', 'm')
    c:ok('PUB - t id=1', 'm')
    refused('COMMIT', "denied nothing was applied: request 2: the message has an id=, and would go to topic 't'")
    assert.equal(0, c:stats('q').ready)
    assert.equal(0, c:stats('t').messages)
    c:ok 'BEGIN'
    assert.matches('^ERR denied PUB expect= cannot be part of a transaction$', c:request('PUB - q expect=1', 'm'))
    refused('COMMIT', 'denied nothing was applied: request 1: ')
  end)

  it('takes the dead letter of a COMMIT', function()
    c:ok 'DECLARE topic t'
    c:ok 'DECLARE queue q dead-letter=-/t'
    c:ok('PUB - q', 'm')
    local m = c:get('q')[1]
    c:ok 'BEGIN'
    c:ok('NACK ' .. m.tag .. ' dead')
    assert.equal(0, c:stats('t').messages)
    assert.equal('0 1', c:ok 'COMMIT')
    assert.equal(1, c:stats('t').messages)
    assert.equal(0, c:stats('q').unacked)
  end)

  it('is deleted with all its keys', function()
    c:ok 'DECLARE exchange x fanout'
    c:ok 'DECLARE topic t partitions=3 sharding=round_robin'
    c:ok 'BIND t x -'
    publish(c, 't', 30)
    local function keys() return broker:redis_cli('KEYS', '*' .. broker.vhost .. '*') end
    assert.matches('topic:t', keys())
    assert.matches('t#2', keys())
    c:ok 'DELETE topic t if-unused'
    assert.is_nil(keys():find('topic', 1, true))
    assert.is_nil(keys():find('t#', 1, true))
    assert.same({}, c:document 'LIST bindings')
    c:ok 'DECLARE topic t partitions=3 sharding=round_robin'
    assert.equal('0:0', publish(c, 't', 1)[1])
  end)

  it('is shown by the command line', function()
    local text, status = broker:cli('declare', 'topic', 't', 'partitions=1', 'retention=3d')
    assert.equal(0, status, text)
    text = broker:cli('pub', '-', 't', 'hello')
    assert.matches('^published %x+ to 1 topic, partition 0 offset 0\n', text)
    text = broker:cli('pub', '--json', '-', 't', 'hello')
    assert.matches('"queues":1,"topics":1,"partition":0,"offset":1}', text)
    assert.matches('\nt +1 +2 ', broker:cli('list', 'topics'))
    assert.matches('PARTITION', broker:cli('explain', '-', 't'))
    text, status = broker:cli('delete', 'topic', 't')
    assert.equal(0, status, text)
  end)
end)

describe('the messages of a topic', function()
  local broker, c

  setup(function() broker = Broker.start() end)
  teardown(function() broker:destroy() end)
  before_each(function() c = broker:enter_vhost() end)
  after_each(function() c:close() end)

  local function crash(how)
    broker[how](broker)
    if not broker:is_running() then broker:run() end
    c:close()
    c = broker:connect()
  end

  for _, how in ipairs { 'expect_clean_stop', 'kill9', 'kill9_all' } do
    it('have dense offsets after ' .. how, function()
      c:ok 'DECLARE exchange x fanout'
      c:ok 'DECLARE topic t partitions=4 sharding=round_robin retention=3d'
      c:ok 'DECLARE topic memory durable=0'
      c:ok 'BIND t x -'
      local ends = {}
      for _ = 1, 3 do
        expect_dense(publish(c, nil, 300, function(i) return 'x', 'k', tostring(i) end), ends)
        crash(how)
        assert.same(ends, ends_of(c, 't'))
      end
      assert.equal(900, c:stats('t').messages)
      c:ok 'DECLARE topic t partitions=4 sharding=round_robin retention=3d'
      assert.matches('^ERR not%-found', c:request 'STATS memory')
      expect_dense(publish(c, 't', 8), ends)
    end)
  end

  it('have each confirmed offset once, whatever was on its way in a crash', function()
    c:ok 'DECLARE topic t partitions=1'
    local confirmed, count = {}, 0
    for _, how in ipairs { 'kill9', 'kill9_all', 'kill9' } do
      c:send(('PUB - t 1\r\na\r\n'):rep(2000))
      c:expect '^OK'
      broker[how](broker)
      while true do
        local line = c:read_line()
        if not line then break end
        local offset = line:match '^OK %x+ 1 0:(%d+)$'
        if offset then
          assert.is_nil(confirmed[offset])
          confirmed[offset] = true
          count = count + 1
        end
      end
      broker:run()
      c:close()
      c = broker:connect()
      local last = c:stats('t').per_partition[1]['end']
      assert.is_true(last >= count)
      for offset in pairs(confirmed) do assert.is_true(tonumber(offset) < last) end
      local place = c:ok('PUB - t', 'next'):match '0:(%d+)$'
      assert.equal(last, tonumber(place))
      confirmed[place] = true
      count = count + 1
    end
  end)

  it('are confirmed late while Redis is gone, and keep their order', function()
    c:ok 'DECLARE topic t partitions=1'
    local ends = {}
    for _ = 1, 3 do
      broker:kill9_redis()
      expect_dense(publish(c, 't', 400), ends)
    end
    crash 'kill9_all'
    assert.same({ ['0'] = 1200 }, ends_of(c, 't'))
  end)

  it('lie in Redis by day, and the sets name the topic and its partitions', function()
    c:ok 'DECLARE topic t partitions=2 sharding=round_robin'
    publish(c, 't', 10)
    local v = broker.vhost or '/'
    local function cli(...) return broker:redis_cli(...) end
    assert.equal('1', cli('SISMEMBER', ('{tide}:%s:topics'):format(v), 't'))
    assert.equal('2', cli('SCARD', ('{tide}:%s:topic:t'):format(v)))
    assert.matches('partitions=2', cli('HGET', ('{tide}:%s:topic-options'):format(v), 't'))
    local days = cli('KEYS', ('tide:{%s/t#1}:log:*'):format(v))
    assert.matches(':log:%d%d%d%d%d%d%d%d', days)
    local day = days:match '^%S+'
    assert.equal('zset', cli('TYPE', day))
    assert.is_true(tonumber(cli('ZCARD', day)) >= 1)
    assert.matches('^%S*0$', cli('ZRANGE', day, 0, 0, 'WITHSCORES'):match '%S+$')
    assert.equal('hash', cli('TYPE', ('tide:{%s/t#1}:log'):format(v)))
  end)
end)

describe('a topic and the rules', function()
  local broker, c

  setup(function() broker = Broker.start { rules = {}, args = { '--fsync', 'no' } } end)
  teardown(function() broker:expect_clean_stop() end)
  before_each(function() c = broker:connect() end)
  after_each(function() c:close() end)

  it('takes the copies that filters make', function()
    c:ok 'DECLARE topic audit partitions=1'
    c:ok 'DECLARE topic other partitions=1'
    c:ok 'DECLARE queue q'
    broker:write_rule('filter/50-audit.lua', [[
      return { match = { key = "q" }, publish = function(msg)
        msg:copy { exchange = "-", key = "audit" }
      end }]])
    c:document 'RULES reload'
    -- The place is that of the message, not that of a copy.
    assert.matches('^%x+ 1$', c:ok('PUB - q', 'm'))
    assert.equal(1, c:stats('audit').messages)
    c:ok 'BEGIN'
    c:ok('PUB - q', 'm')
    assert.equal('1 0', c:ok 'COMMIT')
    assert.equal(2, c:stats('audit').messages)
    broker:remove_rule 'filter/50-audit.lua'
    c:document 'RULES reload'
  end)

  it('records an exchange and a queue with the shipped filter', function()
    c:ok 'DECLARE exchange orders direct'
    c:ok 'DECLARE queue work'
    c:ok 'BIND work orders eu'
    c:ok 'DECLARE exchange record fanout'
    c:ok 'DECLARE topic recorded partitions=4'
    c:ok 'BIND recorded record -'
    broker:write_rule('filter/80-record.lua', 'return tide.use("record", { match = { exchange = "orders" } })')
    c:document 'RULES reload'
    local id = c:request('PUB orders eu id=o-1 h:a=b', 'm'):match '^OK (%x+) 1$'
    -- The repeated publish is recorded once, too.
    assert.equal(('OK %s 1 duplicate'):format(id), c:request('PUB orders eu id=o-1', 'm'))
    c:ok('PUB orders nobody', 'm')
    c:ok('PUB - work', 'not of the exchange')
    assert.equal(2, c:stats('recorded').messages)
    local seen = {}
    for p = 0, 3 do
      for _, m in ipairs(c:document('PEEK recorded 100 partition=' .. p).messages) do seen[m.key] = m end
    end
    assert.same({ 'record', 'm', 'b', id, 'orders' }, { seen.eu.exchange, seen.eu.payload, seen.eu.headers.a,
      seen.eu.headers['x-record-of'], seen.eu.headers['x-record-exchange'] })
    assert.equal('m', seen.nobody.payload)
    assert.equal(2, c:stats('work').ready)
    broker:remove_rule 'filter/80-record.lua'
    c:document 'RULES reload'
  end)

  it('tells the retry script where the message lies', function()
    broker:write_rule('retry/place.lua', [[
      return { decide = function(msg)
        tide.log.warn(("%s is at %s of %s"):format(msg.payload, msg.offset, msg.partition))
        return "drop"
      end }]])
    c:document 'RULES reload'
    c:ok 'DECLARE topic placed partitions=2 retry=place sharding=round_robin'
    c:ok 'DECLARE queue unplaced retry=place'
    for i = 1, 4 do c:ok('PUB - placed', 'm' .. i) end
    c:ok('PUB - unplaced', 'm5')
    c:ok 'SUB placed s from=first partition=1'
    for _ = 1, 2 do c:expect_msg() end
    c:get 'unplaced'
    c:ok 'NACK 1-3'
    broker:expect_log 'm2 is at 0 of 1'
    broker:expect_log 'm4 is at 1 of 1'
    broker:expect_log 'm5 is at nil of nil'
    c:ok 'UNSUB s'
  end)

  it('takes the messages of a schedule', function()
    c:ok 'DECLARE topic ticks partitions=1'
    broker:write_rule('schedule/ticker.lua', [[
      return { every = "100ms", run = function(b, tick) b.publish { key = "ticks", payload = "tick" } end }]])
    c:document 'RULES reload'
    assert(wait.poll(function() return c:stats('ticks').messages >= 3 end), 'no ticks came')
    broker:remove_rule 'schedule/ticker.lua'
    c:document 'RULES reload'
  end)

  it('is kept and refused when the rules do not carry it, and read when they do', function()
    broker:write_rule('sharding/mine.lua', 'return { pick = function() return 1 end }')
    c:document 'RULES reload'
    c:ok 'DECLARE topic t partitions=2 sharding=mine'
    c:ok 'DECLARE exchange x fanout'
    assert.equal('1:2', publish(c, 't', 3)[3])
    broker:redis_cli('DEL', '{tide}:rules:last')
    broker:expect_clean_stop()
    broker:remove_rule 'sharding/mine.lua'
    broker:run()
    c = broker:connect()
    local why = 'uses sharding/mine.lua, which is missing'
    broker:expect_log("topic 't' of vhost '/' cannot be used and stays in Redis: it " .. why)
    broker:expect_log 'cannot be used: 0 exchanges, 0 queues, 0 bindings, 1 topic;'
    assert.equal(why, find(c:document 'LIST topics', 't').unusable)
    local again = 'DECLARE topic t partitions=2 sharding=mine'
    for _, request in ipairs { 'PUB - t 1\r\na', 'STATS t', 'BIND t x -', again } do
      assert.equal(("ERR rule topic 't' cannot be used: it %s"):format(why), c:request(request))
    end
    broker:write_rule('sharding/mine.lua', 'return { pick = function() return 1 end }')
    c:document 'RULES reload'
    assert(wait.poll(function() return c:request('STATS t'):find '^DATA' and c:read_line() end), 'not read')
    assert.matches('^%x+ 1 1:3$', c:ok('PUB - t', 'm'))
  end)
end)

describe('a topic whose Redis refuses', function()
  local broker, redis, c

  before_each(function()
    broker = Broker.start { redis = { '--proto-max-bulk-len', '1mb' }, args = { '--max-unstored', '2M' } }
    redis = broker.redis
    c = broker:connect()
  end)
  after_each(function() broker:destroy() end)

  it('gives the offsets of refused publishes to the next ones', function()
    c:ok 'DECLARE topic t partitions=1'
    local ends = expect_dense(publish(c, 't', 10), {})
    redis:cli('CONFIG', 'SET', 'maxmemory', '1')
    for _ = 1, 3 do assert.matches('^ERR store .*OOM', c:request('PUB - t', 'refused')) end
    assert.same({ ['0'] = 10 }, ends_of(c, 't'))
    assert.matches('^ERR store .*OOM', c:request 'DECLARE topic other')
    assert.equal('t', names(c:document 'LIST topics'))
    redis:cli('CONFIG', 'SET', 'maxmemory', '0')
    assert(wait.poll(function()
      local place = c:request('PUB - t', 'taken'):match '^OK %x+ 1 (%d+:%d+)$'
      return place and expect_dense({ place }, ends)
    end), 'no publish is taken')
    expect_dense(publish(c, 't', 10), ends)
    broker:kill9()
    broker:run()
    c = broker:connect()
    assert.same(ends, ends_of(c, 't'))
  end)

  it('is deleted while memory is out', function()
    c:ok 'DECLARE topic t partitions=2 sharding=round_robin'
    publish(c, 't', 10)
    redis:cli('CONFIG', 'SET', 'maxmemory', '1')
    c:ok 'DELETE topic t'
    assert.equal('', redis:cli('KEYS', '*t#*'))
  end)

  it('holds publishers back while Redis is stopped, and resumes', function()
    c:ok 'DECLARE topic t partitions=1'
    local pid = redis:pid()
    redis:signal('STOP', pid)
    local publisher = broker:connect()
    publisher:send((('PUB - t 1000\r\n%s\r\n'):format(('x'):rep(1000))):rep(3000))
    publisher:expect '^EVT blocked'
    assert.is_true(c:document('STATS').logs.unstored_bytes > 2e6)
    redis:signal('CONT', pid)
    local confirmed, is_unblocked = 0, false
    while confirmed < 3000 or not is_unblocked do
      local line = publisher:read_line(20)
      if line and line:find '^EVT unblocked' then is_unblocked = true
      elseif line and line:find(('^OK %%x+ 1 0:%d$'):format(confirmed)) then confirmed = confirmed + 1
      elseif not (line and line:find '^EVT blocked') then error('got ' .. tostring(line)) end
    end
    assert.equal(0, c:document('STATS').logs.unstored_bytes)
    broker:expect_clean_stop()
  end)

  it('answers what is on its way before it stops', function()
    c:ok 'DECLARE topic t partitions=1'
    local pid = redis:pid()
    redis:signal('STOP', pid)
    c:send(('PUB - t 1\r\na\r\n'):rep(100))
    assert(wait.poll(function()
      local other = broker:connect()
      local n = other:document('STATS').logs.unstored_bytes
      other:close()
      return n > 0
    end))
    broker:signal 'TERM'
    c:expect '^EVT closed shutdown'
    redis:signal('CONT', pid)
    for i = 0, 99 do c:expect(('^OK %%x+ 1 0:%d$'):format(i)) end
    c:expect_closed()
    assert(wait.poll(function() return broker:exit_status() end))
    broker:run()
    c = broker:connect()
    assert.same({ ['0'] = 100 }, ends_of(c, 't'))
  end)

  it('tells publishers when it is deleted before their messages are stored', function()
    c:ok 'DECLARE topic t partitions=1'
    local pid = redis:pid()
    redis:signal('STOP', pid)
    c:send(('PUB - t 1\r\na\r\n'):rep(10))
    c:send 'DELETE topic t\r\n'
    local other = broker:connect()
    assert(wait.poll(function()
      other:send 'LIST topics\r\n'
      return #other:expect_json() == 0
    end))
    other:send 'DELETE topic t\r\n'
    -- What was not sent is refused at once, the rest when Redis has answered.
    redis:signal('CONT', pid)
    for _ = 1, 10 do c:expect '^ERR not%-found ' end
    c:expect_line 'OK'
    other:expect '^ERR not%-found '
    assert.same({}, c:document 'LIST topics')
    assert.equal('', redis:cli('KEYS', '*t#*'))
  end)

  it('takes no message that Redis would not', function()
    c:ok 'DECLARE topic t'
    c:ok 'DECLARE topic memory durable=0'
    local long = ('x'):rep(1024 * 1024)
    assert.matches("^ERR too%-large a message of %d+ bytes is too large for the durable topic 't': Redis accepts %d+ ",
      c:request('PUB - t', long))
    assert.matches('^%x+ 1 %d:0$', c:ok('PUB - memory', long))
    assert.matches('^%x+ 1 %d:0$', c:ok('PUB - t', ('x'):rep(1024 * 1024 - 1000)))
  end)
end)
