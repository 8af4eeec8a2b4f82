-- What topics drop: by age, count and bytes, by PURGE; and who is told.
local Broker = require 'support.broker'
local Client = require 'support.client'
local Clock = require 'support.clock'
local topics = require 'support.topics'
local wait = require 'support.wait'

local HOUR, DAY = 3600, 86400
--- Publish so many at once, and wait until all are durable.
local function publish(c, topic, count, len)
  local line = ('PUB - %s %d\r\n%s\r\n'):format(topic, len or 10, ('x'):rep(len or 10))
  for from = 1, count, 500 do
    local n = math.min(500, count - from + 1)
    c:send(line:rep(n))
    for _ = 1, n do c:expect '^OK %x+ 1 %d+:%d+$' end
  end
end

local function partition(c, topic, index) return c:stats(topic).per_partition[(index or 0) + 1] end

local function expect_start(c, topic, start)
  local has
  assert(wait.poll(function()
    has = partition(c, topic)
    return has.start == start
  end), ('it starts at %s, not %s'):format(has.start, start))
  return has
end

describe('a topic', function()
  local broker, c

  setup(function() broker = Broker.start { args = { '--fsync', 'no' } } end)
  teardown(function() broker:expect_clean_stop() end)
  before_each(function() c = broker:enter_vhost() end)
  after_each(function() c:close() end)

  local function refused(line, pattern) assert.matches('^ERR ' .. pattern, c:request(line)) end

  local function sub(words, partitions)
    c:send(('SUB t %s\r\n'):format(words))
    c:expect_line 'OK'
    if partitions then c:expect_line(('EVT assigned %s %s'):format(words:match '^%S+', partitions)) end
  end

  describe('with retention-count', function()
    it('keeps so many of each partition, soon after there are more', function()
      c:ok 'DECLARE topic t partitions=2 sharding=round_robin retention-count=100'
      publish(c, 't', 2000)
      assert(wait.poll(function()
        local a, b = partition(c, 't'), partition(c, 't', 1)
        return a['end'] - a.start <= 106 and b['end'] - b.start <= 106
      end))
      for i = 0, 1 do
        local p = partition(c, 't', i)
        assert.equal(1000, p['end'])
        assert.is_true(p['end'] - p.start >= 100)
        -- Redis has no whole batch more.
        local key = ('tide:{%s/t#%d}:log'):format(broker.vhost, i)
        assert.equal(tostring(p.start), broker:redis_cli('HGET', key, 'start'))
      end
    end)

    it('drops nothing below it', function()
      c:ok 'DECLARE topic t partitions=1 retention-count=100'
      publish(c, 't', 100)
      publish(c, 't', 5)
      assert.equal(0, partition(c, 't').start)
    end)

    it('does so in memory, too', function()
      c:ok 'DECLARE topic t partitions=1 retention-count=100 durable=0'
      publish(c, 't', 1000)
      assert(wait.poll(function() return partition(c, 't').start >= 894 end))
      assert.is_true(partition(c, 't').start <= 900)
    end)
  end)

  it('has all that it keeps after a crash in the midst of dropping', function()
    c:ok 'DECLARE topic t partitions=4 sharding=round_robin retention-count=200'
    local confirmed = {}
    for round = 1, 5 do
      c:send(('PUB - t 1\r\nx\r\n'):rep(4000))
      for _ = 1, 1500 + 400 * round do
        local index, offset = c:expect '^OK %x+ 1 (%d+):(%d+)$'
        confirmed[index] = tonumber(offset)
      end
      broker:kill9_all()
      broker:run()
      c = broker:connect()
      for index, last in pairs(confirmed) do
        local p = partition(c, 't', tonumber(index))
        assert.is_true(p['end'] > last)
        assert.is_true(p['end'] - p.start >= math.min(200, p['end']))
        c:send(('SUB t s from=first partition=%s ack=auto\r\n'):format(index))
        c:expect_line 'OK'
        local m = c:expect_msg()
        local offset = tonumber(m.options.offset)
        while offset < p['end'] - 1 do
          offset = offset + 1
          assert.equal(tostring(offset), c:expect_msg().options.offset)
        end
        c:ok 'UNSUB s'
      end
    end
    assert.is_true(partition(c, 't').start > 0)
  end)

  describe('with retention-bytes', function()
    it('keeps at least so many, and a batch and a sixteenth more at most', function()
      c:ok 'DECLARE topic t partitions=1 retention-bytes=200000'
      publish(c, 't', 3000, 1000)
      local p
      assert(wait.poll(function()
        p = partition(c, 't')
        return p.bytes <= 200000 + 200000 // 16 + 65536
      end))
      assert.is_true(p.bytes >= 200000, p.bytes)
      sub 's from=first ack=auto'
      assert.equal(p.start, tonumber(c:expect_msg().options.offset))
    end)
  end)

  it('of memory alone tells its readers what they have missed', function()
    c:ok 'DECLARE topic t partitions=1 durable=0'
    publish(c, 't', 10)
    sub('s group=g prefetch=1', '0')
    c:expect_msg()
    local other = broker:connect()
    publish(other, 't', 2500, 10000)
    local start = partition(other, 't').start
    assert.is_true(start > 500)
    c:ok 'ACK 1'
    c:expect_line(('EVT skipped s 0 1 %d'):format(start))
    assert.equal(tostring(start), c:expect_msg().options.offset)
    other:close()
  end)

  describe('that is purged', function()
    it('has nothing left, and its offsets go on', function()
      c:ok 'DECLARE topic t partitions=2 sharding=round_robin'
      publish(c, 't', 100)
      assert.equal('100', c:ok 'PURGE t')
      assert.equal('0', c:ok 'PURGE t')
      local stats = c:stats 't'
      assert.equal(0, stats.messages)
      assert.equal(0, stats.bytes)
      assert.equal('', broker:redis_cli('KEYS', ('tide:{%s/t#*:log:*'):format(broker.vhost)))
      c:send 'PUB - t 1\r\nx\r\n'
      c:expect '^OK %x+ 1 [01]:50$'
      sub 's from=first ack=auto'
      assert.equal('50', c:expect_msg().options.offset)
    end)

    it('keeps what lies behind an offset, in one partition or in all', function()
      c:ok 'DECLARE topic t partitions=2 sharding=round_robin'
      publish(c, 't', 100)
      assert.equal('20', c:ok 'PURGE t before=20 partition=1')
      assert.equal(0, partition(c, 't').start)
      assert.equal(20, partition(c, 't', 1).start)
      assert.equal('40', c:ok 'PURGE t before=30')
      assert.equal(30, partition(c, 't').start)
      assert.equal('0', c:ok 'PURGE t before=first')
      assert.equal('40', c:ok 'PURGE t before=1000000')
      assert.equal(50, partition(c, 't').start)
    end)

    it('keeps what came at a time, or later', function()
      c:ok 'DECLARE topic t partitions=1'
      publish(c, 't', 10)
      local last = partition(c, 't').last
      assert(wait.poll(function()
        publish(c, 't', 1)
        return partition(c, 't').last > last
      end))
      assert.equal('0', c:ok 'PURGE t before=1h')
      assert.equal('0', c:ok 'PURGE t before=2020-01-01')
      c:ok(('PURGE t before=@%d'):format(partition(c, 't').last))
      last = partition(c, 't').last
      sub 's from=first ack=auto'
      assert.equal(last, tonumber(c:expect_msg().options.ts))
    end)

    it('is not hindered by keep-unread', function()
      c:ok 'DECLARE topic t partitions=1 keep-unread=never'
      publish(c, 't', 10)
      assert.equal('10', c:ok 'PURGE t')
    end)

    it('is asked for it properly', function()
      c:ok 'DECLARE topic t partitions=2'
      c:ok 'DECLARE queue q'
      refused('PURGE t before=soon', "syntax 'soon' is no position: expected first, last, last%-100, an offset, a ")
      refused('PURGE t before=committed', 'syntax before=committed: PURGE knows no group; ')
      refused('PURGE t partition=2', "not%-found topic 't' has no partition 2: it has 2, from 0 on$")
      refused('PURGE q before=1', "syntax before= and partition= are for topics, and 'q' is a queue$")
      refused('PURGE q partition=0', 'syntax before= and partition= are for topics')
      refused('PURGE none', 'not%-found ')
    end)

    it('passes while Redis has no memory left', function()
      c:ok 'DECLARE topic t partitions=1'
      publish(c, 't', 100)
      broker:redis_cli('CONFIG', 'SET', 'maxmemory', '1')
      assert.matches('^ERR store', c:request('PUB - t', 'refused'))
      local answer = c:request 'PURGE t'
      broker:redis_cli('CONFIG', 'SET', 'maxmemory', '0')
      assert.equal('OK 100', answer)
      assert.equal('', broker:redis_cli('KEYS', ('tide:{%s/t#*:log:*'):format(broker.vhost)))
    end)
  end)

  describe('tells those that are behind its start', function()
    it('who have something left to read', function()
      c:ok 'DECLARE topic t partitions=1'
      publish(c, 't', 100)
      sub('s group=g prefetch=1', '0')
      c:expect_msg()
      assert.equal('50', c:ok 'PURGE t before=50')
      c:ok 'ACK 1'
      c:expect_line 'EVT skipped s 0 1 50'
      assert.equal('50', c:expect_msg().options.offset)
    end)

    it('who have nothing left, at once', function()
      c:ok 'DECLARE topic t partitions=1'
      publish(c, 't', 100)
      sub('s group=g prefetch=1', '0')
      c:expect_msg()
      c:send 'PURGE t\r\n'
      c:expect_line 'OK 100'
      c:send 'ACK 1\r\n'
      c:expect_line 'OK 1'
      c:expect_line 'EVT skipped s 0 1 100'
      c:send 'PUB - t 1\r\nx\r\n'
      c:expect '^OK %x+ 1 0:100$'
      assert.equal('100', c:expect_msg().options.offset)
    end)

    it('not who are at its end', function()
      c:ok 'DECLARE topic t partitions=1'
      publish(c, 't', 10)
      sub 'r from=first ack=auto'
      for _ = 1, 10 do c:expect_msg() end
      assert.equal('10', c:ok 'PURGE t')
      c:send 'PUB - t 1\r\nx\r\n'
      c:expect '^OK %x+ 1 0:10$'
      assert.equal('10', c:expect_msg().options.offset)
    end)

    it('and takes what they hold as it was', function()
      c:ok 'DECLARE topic t partitions=1'
      publish(c, 't', 10)
      sub('s group=g prefetch=4', '0')
      for _ = 1, 4 do c:expect_msg() end
      assert.equal('8', c:ok 'PURGE t before=8')
      assert.equal('2', c:ok 'ACK 1-2')
      c:expect_line 'EVT skipped s 0 4 8'
      for i = 8, 9 do assert.equal(tostring(i), c:expect_msg().options.offset) end
      -- What has failed cannot be had again.
      c:send 'NACK 3-4\r\n'
      c:expect_line 'OK 2'
      c:expect_line 'EVT skipped s 0 2 8'
      assert.equal('2', c:ok 'ACK 5-6')
      assert(wait.poll(function()
        return broker:redis_cli('HGET', ('tide:{%s/t#0}:groups'):format(broker.vhost), 'g') == '10'
      end))
    end)

    it('after a restart', function()
      c:ok 'DECLARE topic t partitions=1'
      publish(c, 't', 100)
      sub('s group=g prefetch=5', '0')
      for _ = 1, 5 do c:expect_msg() end
      c:ok 'ACK 1-5'
      c:close()
      c = broker:connect()
      assert.equal('20', c:ok 'PURGE t before=20')
      broker:restart()
      c = broker:connect()
      sub('s group=g prefetch=1', '0')
      c:expect_line 'EVT skipped s 0 5 20'
      assert.equal('20', c:expect_msg().options.offset)
    end)
  end)
end)

describe('a topic whose clock is moved', function()
  local broker, clock, c
  local noon -- how far the broker's clock is ahead when the first day has its noon

  local function start()
    -- AddressSanitizer wants to be loaded first.
    if Broker.is_sanitized() then
      pending 'no other clock under AddressSanitizer'
      return false
    end
    clock = Clock.new()
    noon = DAY // 2 - os.time() % DAY
    clock:set(noon)
    broker = Broker.start { env = clock.env, args = { '--fsync', 'no' } }
    c = broker:connect()
    return true
  end

  after_each(function()
    if broker then broker:destroy() end
    if clock then clock:destroy() end
    broker, clock = nil, nil
  end)

  --- The clock shows that long after noon of the first day, and the broker knows.
  local function set(seconds)
    clock:set(noon + math.tointeger(seconds))
    c:ok 'PING'
  end

  local function days(topic)
    local n = 0
    for _ in broker:redis_cli('KEYS', ('tide:{//%s#0}:log:*'):format(topic)):gmatch '%S+' do n = n + 1 end
    return n
  end

  local function expect_read(topic, from, to)
    c:send(('SUB %s r%d from=first ack=auto\r\n'):format(topic, from))
    c:expect_line 'OK'
    for offset = from, to do assert.equal(tostring(offset), c:expect_msg().options.offset) end
    c:expect_nothing()
    c:ok('UNSUB r' .. from)
  end

  it('drops days as a whole, when all of a day is older than retention', function()
    if not start() then return end
    c:ok 'DECLARE topic t partitions=1 retention=1d'
    for _, at in ipairs { 0, DAY + HOUR, 2 * DAY } do
      set(at)
      publish(c, 't', 10)
    end
    -- The first day ended a day and a half before: noon of the third.
    expect_start(c, 't', 10)
    assert.equal(2, days 't')
    expect_read('t', 10, 29)
    set(2.5 * DAY + 60)
    expect_start(c, 't', 20)
    broker:restart()
    c = broker:connect()
    expect_read('t', 20, 29)
    -- The last day goes with its last message: no midnight is waited for.
    set(3 * DAY - 60)
    expect_read('t', 20, 29)
    set(3 * DAY + 60)
    expect_start(c, 't', 30)
    assert.equal(0, days 't')
    c:send 'PUB - t 1\r\nx\r\n'
    c:expect '^OK %x+ 1 0:30$'
    broker:restart()
    c = broker:connect()
    expect_read('t', 30, 30)
  end)

  it('drops when it starts what became too old meanwhile', function()
    if not start() then return end
    c:ok 'DECLARE topic t partitions=1 retention=1h'
    publish(c, 't', 10)
    broker:expect_clean_stop()
    clock:set(noon + 2 * HOUR)
    broker:run()
    c = broker:connect()
    expect_start(c, 't', 10)
    assert.equal(0, days 't')
  end)

  it('keeps them for ever with retention=0', function()
    if not start() then return end
    c:ok 'DECLARE topic t partitions=1 retention=0'
    c:ok 'DECLARE topic other partitions=1'
    publish(c, 't', 10)
    publish(c, 'other', 10)
    set(3000 * DAY)
    expect_start(c, 'other', 10)
    assert.equal(0, partition(c, 't').start)
    expect_read('t', 0, 9)
  end)

  it('is read over midnight and days without a message', function()
    if not start() then return end
    c:ok 'DECLARE topic t partitions=1 retention=30d'
    c:send 'SUB t s group=g\r\n'
    c:expect_line 'OK'
    c:expect_line 'EVT assigned s 0'
    local offset = 0
    for _, at in ipairs { 0, DAY / 2 - 90, DAY / 2, DAY / 2 + 1, 4 * DAY, 9.5 * DAY - 90, 9.5 * DAY } do
      set(at)
      for _ = 1, 3 do
        c:send 'PUB - t 1\r\nx\r\n'
        c:expect(('^OK %%x+ 1 0:%d$'):format(offset))
        local m = c:expect_msg()
        assert.equal(tostring(offset), m.options.offset)
        offset = offset + 1
      end
    end
    assert.equal('21', c:ok 'ACK 1-21')
    assert.equal(5, days 't')
    expect_read('t', 0, 20)
    broker:restart()
    c = broker:connect()
    expect_read('t', 0, 20)
    -- The first message of a day, by its date.
    local date = os.date('!%Y-%m-%d', os.time() + noon + 4 * DAY)
    c:send(('SUB t d from=%s ack=auto\r\n'):format(date))
    c:expect_line 'OK'
    assert.equal('12', c:expect_msg().options.offset)
  end)

  it('is read by GET over the end of a day', function()
    if not start() then return end
    c:ok 'DECLARE topic t partitions=1 retention=0'
    for day, payloads in ipairs { { 'a', 'b' }, { 'c', 'd', 'e' }, { 'f' } } do
      set(day * DAY)
      topics.publish(c, table.unpack(payloads))
    end
    for words, expected in pairs {
      ['partition=0 offset=first max=6'] = 'a b c d e f',
      ['partition=0 offset=1 max=4'] = 'b c d e',
      ['partition=0 offset=1 max=100 wait=1h'] = 'b c d e f',
      ['group=g max=100'] = 'a b c d e f',
      ['group=h max=100 wait=1h ack=auto'] = 'a b c d e f',
    } do
      broker:restart()
      c = broker:connect()
      assert.equal(expected, Client.payload_text(c:get('t ' .. words)), words)
    end
  end)

  it('is read by GET no further when a subscription gets the partition', function()
    if not start() then return end
    c:ok 'DECLARE topic t partitions=1 retention=0'
    topics.publish(c, 'a', 'b')
    set(DAY)
    topics.publish(c, 'c')
    set(2 * DAY)
    topics.publish(c, 'd')
    broker:restart()
    c = broker:connect()
    local d, redis = broker:connect(), broker:redis_pid()
    assert.equal('a', Client.payload_text(c:get 't group=g'))
    -- What was read ahead is kept, since Redis cannot be told of the ack: 'b', and perhaps 'c'.
    assert(os.execute('kill -STOP ' .. redis))
    c:ok 'ACK 1'
    c:send 'GET t group=g max=10 wait=1h\r\n'
    assert(wait.poll(function() return topics.group(d, 'g').gets == 1 end))
    topics.sub(d, 's group=g')
    local count = tonumber(c:expect '^OK (%d)$')
    topics.expect_payloads(c, table.unpack({ 'b', 'c' }, 1, count))
    assert(os.execute('kill -CONT ' .. redis))
    c:ok('ACK 2-' .. count + 1)
    topics.expect_payloads(d, table.unpack({ 'b', 'c', 'd' }, count + 1))
  end)

  it('keeps no group waiting for what is too old', function()
    if not start() then return end
    c:ok 'DECLARE topic t partitions=1 retention=1d'
    topics.publish(c, 'a', 'b')
    local d = broker:connect()
    topics.sub(d, 's group=g prefetch=1')
    topics.expect_payloads(d, 'a')
    d:ok 'NACK 1 delay=30d'
    set(3 * DAY)
    d:expect_line 'EVT skipped s 0 0 2'
    c:ok('PUB - t', 'new')
    topics.expect_payloads(d, 'new')
  end)

  it('loses nothing and repeats nothing when the clock goes forth and back', function()
    if not start() then return end
    c:ok 'DECLARE topic t partitions=1 retention=5d'
    local n, last = 0, 0
    for _, at in ipairs { 0, DAY, -DAY, 3 * DAY, 0, -2 * DAY, 3.5 * DAY, HOUR } do
      set(at)
      publish(c, 't', 5)
      n = n + 5
      -- Times of a partition never go back.
      local ms = partition(c, 't').last
      assert.is_true(ms >= last)
      last = ms
      expect_read('t', 0, n - 1)
    end
    assert.equal(4, days 't')
    broker:restart()
    c = broker:connect()
    expect_read('t', 0, n - 1)
    set(8 * DAY)
    -- What was stamped with the first two days has gone, and nothing else.
    expect_start(c, 't', 15)
    expect_read('t', 15, n - 1)
  end)

  it('is exact within a minute where limits are of count and bytes', function()
    if not start() then return end
    c:ok 'DECLARE topic t partitions=1 retention-count=100 retention=0'
    publish(c, 't', 104)
    assert.equal(0, partition(c, 't').start)
    set(60)
    expect_start(c, 't', 4)
    c:ok 'DECLARE topic b partitions=1 retention-bytes=10000'
    for _ = 1, 20 do publish(c, 'b', 1, 1000) end
    set(120)
    local p
    assert(wait.poll(function()
      p = partition(c, 'b')
      return p.bytes < 12000
    end))
    assert.is_true(p.bytes >= 10000)
    assert.equal(10, p['end'] - p.start)
  end)

  describe('with keep-unread', function()
    local function group_reads(name, count)
      local r = broker:connect()
      r:send(('SUB t s group=%s prefetch=%d\r\n'):format(name, count))
      r:expect_line 'OK'
      r:expect_line 'EVT assigned s 0'
      for _ = 1, count do r:expect_msg() end
      r:ok(('ACK 1-%d'):format(count))
      r:close()
    end

    it('drops nothing that a group has not committed, and says so', function()
      if not start() then return end
      c:ok 'DECLARE topic t partitions=1 retention=1h keep-unread=billing,audit'
      publish(c, 't', 100)
      assert.is_nil(partition(c, 't').held_back)
      set(2 * HOUR)
      local p
      assert(wait.poll(function()
        p = partition(c, 't')
        return p.held_back
      end))
      assert.equal(0, p.start)
      assert.equal(100, p.held_back)
      assert.equal('billing', p.held_by)
      local since = p.held_since
      assert.is_true(math.abs(since - (os.time() + noon + 2 * HOUR) * 1000) < 60000)
      broker:expect_log("warn  topic 't' of vhost '/': keep%-unread holds 100 messages of partition 0 beyond its "
        .. "retention, which group 'billing' has not committed")
      group_reads('billing', 30)
      set(2 * HOUR + 60)
      assert(wait.poll(function() return partition(c, 't').held_by == 'audit' end))
      group_reads('audit', 40)
      set(2 * HOUR + 120)
      p = expect_start(c, 't', 30)
      assert.equal(70, p.held_back)
      assert.equal('billing', p.held_by)
      assert.equal(since, p.held_since)
      broker:restart()
      c = broker:connect()
      p = expect_start(c, 't', 30)
      assert.equal('billing', p.held_by)
      group_reads('billing', 70)
      group_reads('audit', 60)
      set(2 * HOUR + 180)
      p = expect_start(c, 't', 100)
      assert.is_nil(p.held_back)
      -- Once a while, whatever the number of looks.
      local _, count = broker:log():gsub('keep%-unread holds', '')
      assert.equal(2, count)
    end)

    it('keeps to a limit of count likewise', function()
      if not start() then return end
      c:ok 'DECLARE topic t partitions=1 retention-count=10 keep-unread=g'
      publish(c, 't', 50)
      assert(wait.poll(function() return partition(c, 't').held_back == 40 end))
      group_reads('g', 20)
      set(60)
      local p = expect_start(c, 't', 20)
      assert.equal(20, p.held_back)
      group_reads('g', 30)
      set(120)
      expect_start(c, 't', 40)
    end)

    it('looks again when Redis answers late', function()
      if not start() then return end
      c:ok 'DECLARE topic t partitions=1 retention-count=10 keep-unread=g'
      publish(c, 't', 50)
      assert(wait.poll(function() return partition(c, 't').held_back == 40 end))
      c:send 'SUB t s group=g\r\n'
      c:expect_line 'OK'
      c:expect_line 'EVT assigned s 0'
      for _ = 1, 50 do c:expect_msg() end
      c:ok 'ACK 1-20'
      local redis = broker:redis_pid()
      os.execute('kill -STOP ' .. redis)
      set(60)
      expect_start(c, 't', 20)
      c:ok 'ACK 21-50'
      set(120)
      os.execute('kill -CONT ' .. redis)
      expect_start(c, 't', 40)
    end)
  end)

  it('is looked at each minute, and each is dropped of many', function()
    if not start() then return end
    local count = 60
    for i = 1, count do
      c:ok(('DECLARE topic t%d partitions=4 sharding=round_robin retention=1h'):format(i))
      publish(c, 't' .. i, 8)
    end
    set(2 * HOUR)
    -- Some go meanwhile.
    for i = 1, count, 10 do c:ok('DELETE topic t' .. i) end
    assert(wait.poll(function()
      for _, t in ipairs(c:document 'LIST topics') do
        if t.messages > 0 then return false end
      end
      return true
    end))
    assert.equal('', broker:redis_cli('KEYS', 'tide:{*:log:*'))
  end)

  --- What Redis has run of the script that drops.
  local function calls()
    return tonumber(broker:redis_cli('INFO', 'commandstats'):match 'cmdstat_eval:calls=(%d+)' or 0)
  end

  --- Redis refuses to drop messages of partition 0.
  local function break_state(topic)
    broker:redis_cli('RENAME', ('tide:{//%s#0}:log'):format(topic), 'kept-' .. topic)
    broker:redis_cli('SET', ('tide:{//%s#0}:log'):format(topic), 'in the way')
  end

  it('asks Redis again for what it refused to drop, and logs that once for each topic', function()
    if not start() then return end
    local REFUSED = "error topic '%s' of vhost '/': Redis refuses to drop what its retention does not keep; "
      .. 'it is asked again each minute: '
    for _, topic in ipairs { 't', 'u', 'v' } do
      c:ok(('DECLARE topic %s partitions=1 retention=1h'):format(topic))
      publish(c, topic, 10)
    end
    for _, topic in ipairs { 't', 'u' } do break_state(topic) end
    local function heal(topic)
      broker:redis_cli('DEL', ('tide:{//%s#0}:log'):format(topic))
      broker:redis_cli('RENAME', 'kept-' .. topic, ('tide:{//%s#0}:log'):format(topic))
    end
    for i = 0, 3 do
      local before = calls()
      set(2 * HOUR + i * 60)
      assert(wait.poll(function() return calls() >= before + 2 end))
    end
    broker:expect_log(REFUSED:format 't')
    broker:expect_log(REFUSED:format 'u')
    expect_start(c, 'v', 10)
    assert.equal(10, partition(c, 't').start)
    heal 't'
    set(3 * HOUR)
    broker:expect_log "info  topic 't' of vhost '/': Redis drops its messages again"
    assert.equal(0, days 't')
    heal 'u'
    set(4 * HOUR)
    broker:expect_log "info  topic 'u' of vhost '/': Redis drops its messages again"
    assert.equal(2, select(2, broker:log():gsub('Redis refuses to drop', '')))
    assert.equal(2, select(2, broker:log():gsub('Redis drops', '')))
  end)

  it('logs of ten topics that Redis refuses them, and of how many more', function()
    if not start() then return end
    for i = 1, 12 do
      c:ok(('DECLARE topic t%d partitions=1 retention=1h'):format(i))
      publish(c, 't' .. i, 10)
      break_state('t' .. i)
    end
    local function told() return select(2, broker:log():gsub('Redis refuses to drop', '')) end
    local before = calls()
    set(2 * HOUR)
    assert(wait.poll(function() return calls() >= before + 12 and told() >= 10 end))
    c:document 'STATS'
    assert.equal(10, told())
    c:close()
    broker:expect_clean_stop()
    broker:expect_log '%(and 2 more lines like this in 10 s%)'
  end)
end)
