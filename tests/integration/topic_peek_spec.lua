-- PEEK of a topic: messages of a partition, from memory and from Redis, without a group.
local Broker = require 'support.broker'
local Http = require 'support.http'
local json = require 'dkjson'
local wait = require 'support.wait'

local function fill(c, topic, from, to, size)
  local lines = {}
  for i = from, to do
    local payload = ('m%d'):format(i) .. ('.'):rep((size or 0) - 5)
    lines[#lines + 1] = ('PUB - %s h:n=%d %d\r\n%s\r\n'):format(topic, i, #payload, payload)
  end
  c:send(table.concat(lines))
  for _ = from, to do c:expect '^OK' end
end

local function offsets(page)
  local all = {}
  for i, m in ipairs(page.messages) do all[i] = m.offset end
  return table.concat(all, ' ')
end

describe('PEEK of a topic', function()
  local broker, c

  -- Of what is in memory a few messages are left: Redis is read.
  setup(function()
    broker = Broker.start { http = '127.0.0.1:0', args = { '--fsync', 'no', '--topic-memory', '1M' } }
  end)
  teardown(function() broker:expect_clean_stop() end)
  before_each(function() c = broker:enter_vhost() end)
  after_each(function() c:close() end)

  local function peek(rest) return c:document('PEEK t' .. (rest or '')) end

  it('shows a message as it is in the log', function()
    c:ok 'DECLARE topic t partitions=2 sharding=round_robin'
    c:send 'PUB - t h:a=b pri=3 2\r\n\255x\r\nPUB - t 2\r\nhi\r\n'
    local id = c:expect '^OK (%x+) 1 0:0$'
    c:expect '^OK %x+ 1 1:0$'
    local m = peek(' partition=0').messages[1]
    assert.same({ id, 0, 0, '-', 't' }, { m.id, m.partition, m.offset, m.exchange, m.key })
    assert.same({ 3, 2, '/3g=' }, { m.priority, m.size, m.payload_base64 })
    assert.equal('b', m.headers.a)
    assert.is_true(m.ts > 0)
    assert.is_nil(m.state)
    assert.equal('hi', peek(' partition=1').messages[1].payload)
  end)

  it('reads on by its next, out of Redis and memory', function()
    c:ok 'DECLARE topic t partitions=1'
    fill(c, 't', 0, 249, 8000)
    local page, seen = peek(' 100'), 0
    while true do
      for _, m in ipairs(page.messages) do
        assert.equal(seen, m.offset)
        assert.equal(('m%d.'):format(seen), m.payload:match '^m%d+%.')
        seen = seen + 1
      end
      if not page.next then break end
      page = peek(' 100 offset=' .. page.next)
    end
    assert.equal(250, seen)
    -- Nothing was taken, and nobody has read.
    assert.equal(250, c:stats('t').messages)
    assert.same({}, c:document 'LIST groups')
  end)

  it('begins at any position', function()
    c:ok 'DECLARE topic t partitions=1'
    fill(c, 't', 0, 199, 8000)
    local before = peek(' 1 offset=150').messages[1].ts
    assert.equal('0', offsets(peek ' 1'))
    assert.equal('0', offsets(peek ' offset=first'))
    assert.equal('17 18', offsets(peek ' 2 offset=17'))
    assert.equal('', offsets(peek ' 2 offset=last'))
    assert.equal('', offsets(peek ' 2 offset=1000000'))
    assert.equal('0', offsets(peek ' 1 offset=1h'))
    assert.is_true(tonumber(offsets(peek(' 1 offset=@' .. before))) <= 150)
    assert.equal('', offsets(peek(' 1 offset=@' .. before + 3600000)))
    assert.equal('199', offsets(peek ' 100 offset=199'))
    assert.is_nil(peek(' 100 offset=199').next)
    assert.equal('199', peek(' 1 offset=198').next)
  end)

  it('begins where the topic begins now', function()
    c:ok 'DECLARE topic t partitions=1 durable=0'
    fill(c, 't', 0, 9)
    assert.equal('0 1 2', offsets(peek ' 3'))
    c:ok 'DELETE topic t'
    c:ok 'DECLARE topic t partitions=3'
    assert.same({ messages = {}, searched = 0 }, peek ' partition=2')
  end)

  it('finds messages, 10,000 at a time', function()
    c:ok 'DECLARE topic t partitions=1'
    fill(c, 't', 0, 3999)
    fill(c, 't', 4000, 7999)
    fill(c, 't', 8000, 11999)
    local page = peek ' 100 match=h:n=11000'
    assert.same({ 0, 10000, '10000' }, { #page.messages, page.searched, page.next })
    page = peek(' 100 match=h:n=11000 offset=' .. page.next)
    assert.equal('11000', offsets(page))
    assert.equal(2000, page.searched)
    assert.is_nil(page.next)
    assert.equal('5 50 51 52', offsets(peek ' 4 match=m5'))
  end)

  it('shows so many bytes at a time', function()
    c:ok 'DECLARE topic t partitions=1'
    for first = 0, 9, 5 do fill(c, 't', first, first + 4, 1024 * 1024) end
    local page = peek ' 100'
    assert.equal('0 1 2 3 4 5 6 7 8', offsets(page))
    assert.equal('9', page.next)
    assert.equal('9', offsets(peek ' 100 offset=9'))
  end)

  describe('newest', function()
    local function payloads(page)
      local all = {}
      for i, m in ipairs(page.messages) do all[i] = m.payload:match '^m%d+' end
      return table.concat(all, ' ')
    end

    local function range(from, to)
      local all = {}
      for i = from, to, -1 do all[#all + 1] = 'm' .. i end
      return table.concat(all, ' ')
    end

    for _, durable in ipairs { 0, 1 } do
      it('shows the last messages of all partitions by time, durable=' .. durable, function()
        c:ok('DECLARE topic t partitions=3 sharding=round_robin durable=' .. durable)
        assert.same({ messages = {}, searched = 0 }, peek ' 9 newest')
        -- A millisecond apart: with the same time their order is not that of the publishes.
        for i = 0, 19 do
          c:ok('PUB - t', 'm' .. i)
          wait.poll(function() return peek(' newest').messages[1].ts < c:document('LIST now').t end)
        end
        local page = peek ' 7 newest'
        assert.equal(range(19, 13), payloads(page))
        local seen = {}
        for i, m in ipairs(page.messages) do
          assert.is_true(m.ts <= (seen[i - 1] or math.huge))
          seen[i] = m.ts
        end
        page = peek(' 7 newest after=' .. page.next)
        assert.equal(range(12, 6), payloads(page))
        c:ok('PUB - t', 'm20')
        page = peek(' 7 newest after=' .. page.next)
        assert.equal(range(5, 0), payloads(page))
        assert.is_nil(page.next)
        assert.equal('m5', payloads(peek ' 3 newest match=m5'))
        assert.equal(2, #peek(' 2 newest partition=1').messages)
        assert.equal(1, peek(' 2 newest partition=1').messages[2].partition)
      end)
    end

    it('reads back to the first, out of Redis and memory', function()
      c:ok 'DECLARE topic t partitions=4 sharding=round_robin'
      fill(c, 't', 0, 499, 8000)
      local page, seen, last = peek ' 100 newest', {}, {}
      while true do
        for _, m in ipairs(page.messages) do
          seen[#seen + 1] = m.payload:match '^m(%d+)'
          assert.is_true(m.offset < (last[m.partition] or math.huge))
          last[m.partition] = m.offset
        end
        if not page.next then break end
        page = peek(' 100 newest after=' .. page.next)
      end
      table.sort(seen, function(a, b) return tonumber(a) < tonumber(b) end)
      assert.equal(500, #seen)
      for i = 0, 499 do assert.equal(i, tonumber(seen[i + 1])) end
    end)

    it('finds what is far back, 10,000 at a time', function()
      c:ok 'DECLARE topic t partitions=2 sharding=round_robin'
      for first = 0, 11999, 4000 do fill(c, 't', first, first + 3999) end
      local page = peek ' 1 newest match=h:n=100'
      assert.same({}, page.messages)
      assert.is_true(page.searched >= 10000 and page.searched < 10200)
      page = peek(' 1 newest match=h:n=100 after=' .. page.next)
      assert.equal('m100', payloads(page))
    end)

    it('shows so many bytes at a time, and nothing that was purged', function()
      c:ok 'DECLARE topic t partitions=2 sharding=round_robin' -- a partition may keep half of a MiB of a page
      fill(c, 't', 0, 11, 1024 * 1024)
      local page, seen = peek ' 100 newest', 0
      assert.is_true(#page.messages >= 8 and #page.messages < 12)
      while page do
        seen = seen + #page.messages
        page = page.next and peek(' 100 newest after=' .. page.next)
      end
      assert.equal(12, seen)
      c:ok 'PURGE t before=3'
      assert.equal(6, #peek(' 100 newest').messages)
    end)

    it('passes over what compaction has removed', function()
      c:ok 'DECLARE topic t partitions=1 compact=key'
      fill(c, 't', 0, 2999, 1000)
      assert(wait.poll(function() return c:stats('t').per_partition[1].compacted > 1000 end))
      local page, last, seen = peek ' 100 newest', math.huge, 0
      while page do
        for _, m in ipairs(page.messages) do
          assert.is_true(m.offset < last)
          last, seen = m.offset, seen + 1
        end
        page = page.next and peek(' 100 newest after=' .. page.next)
      end
      assert.is_true(seen > 0 and seen < 2000)
    end)

    it('is on the command line and over HTTP', function()
      c:ok 'DECLARE topic t partitions=2 sharding=round_robin'
      fill(c, 't', 1, 30)
      local text = broker:cli('peek', 't', '--newest', '--count', 5)
      assert.matches('there may be more: %-%-after @%d+,%d+', text)
      local all = broker:cli('peek', 't', '--newest', '--all')
      for i = 1, 30 do assert.matches('m' .. i .. '\n', all) end
      local http = Http.connect(broker)
      local path = ('/api/vhosts/%s/topics/t/messages?newest=true&max=20'):format(broker.vhost)
      local page = http:expect(200, 'GET', path)
      assert.equal(20, #page.messages)
      assert.equal(10, #http:expect(200, 'GET', path .. '&after=' .. page.next:gsub('@', '%%40')).messages)
    end)

    it('says what is wrong', function()
      c:ok 'DECLARE topic t partitions=2'
      c:ok 'DECLARE queue q'
      for request, answer in pairs {
        ['PEEK t newest offset=1'] = 'newest begins at the end: it takes after= and no offset=',
        ['PEEK t newest after=1'] = 'after=1: expected the next of an answer to the same PEEK',
        ['PEEK t newest after=@1'] = 'after=@1: expected the next of an answer to the same PEEK',
        ['PEEK t newest after=@1,x'] = 'after=@1,x: expected the next of an answer to the same PEEK',
        ['PEEK q newest'] = "'q' is a queue: partition=, offset= and newest are for topics",
      } do
        c:expect_answer(request, 'ERR syntax ' .. answer)
      end
    end)
  end)

  it('says what it needs', function()
    c:ok 'DECLARE topic t partitions=4'
    c:ok 'DECLARE queue q'
    for request, answer in pairs {
      ['PEEK t'] = "syntax PEEK of a topic needs partition=, or newest: 't' has 0-3",
      ['PEEK t partition=4'] = "not-found topic 't' has no partition 4: it has 4, from 0 on",
      ['PEEK t partition=0 offset=committed'] =
        'syntax PEEK reads for no group: expected offset=first, last, an offset or a time',
      ['PEEK t partition=0 state=ready'] =
        "syntax 't' is a topic: PEEK takes newest, or partition= and offset= for it, and no state=; "
          .. 'after= goes with newest',
      ['PEEK q partition=0'] = "syntax 'q' is a queue: partition=, offset= and newest are for topics",
      ['PEEK q offset=3'] = "syntax 'q' is a queue: partition=, offset= and newest are for topics",
      ['PEEK nothing'] = "not-found there is no queue 'nothing' in vhost '" .. broker.vhost .. "'",
    } do
      assert.equal('ERR ' .. answer, c:request(request))
    end
    assert.matches('^ERR syntax', c:request 'PEEK t partition=0 offset=yesterday')
    assert.matches('^ERR syntax', c:request 'PEEK t partition=0 match=key:')
  end)

  it('is there on the command line', function()
    c:ok 'DECLARE topic t partitions=1'
    fill(c, 't', 0, 249)
    local text = broker:cli('peek', 't')
    assert.matches('\nID +PARTITION +OFFSET +EXCHANGE +KEY ', text)
    assert.matches('there may be more: %-%-offset 10', text)
    assert.equal(250, select(2, broker:cli('peek', '--all', 't'):gsub('  m%d', '')))
    local page = json.decode(broker:cli('peek', '--json', '--partition', '0', '--offset', '240', '--count', '2', 't'))
    assert.equal('240 241', offsets(page))
    assert.equal('242', page.next)
    assert.matches('m245', broker:cli('peek', '--match', 'm245', 't'))
  end)
end)

describe('PEEK of a topic whose Redis', function()
  local broker, redis, c

  before_each(function()
    broker = Broker.start { redis = {} }
    redis = broker.redis
    c = broker:connect()
    c:ok 'DECLARE topic t partitions=1'
    fill(c, 't', 0, 9)
    -- A new process has nothing of it in memory.
    broker:kill9()
    broker:run()
    c = broker:connect()
  end)
  after_each(function() broker:destroy() end)

  it('stands still waits for it, and for no topic that is gone', function()
    local pid, other = redis:pid(), broker:connect()
    redis:signal('STOP', pid)
    other:send 'PEEK t 2\r\n@1 OPEN\r\n'
    other:expect_line '@1 OK'
    c:send 'DELETE topic t\r\n'
    c:send '@1 OPEN\r\n'
    c:expect_line '@1 OK'
    redis:signal('CONT', pid)
    other:expect '^DATA %d+$'
    c:expect_line 'OK'
    assert.matches('^ERR not%-found', c:request 'PEEK t')
  end)

  it('has a damaged batch goes on behind it', function()
    local day = redis:cli('KEYS', 'tide:{//t#0}:log:*')
    fill(c, 't', 10, 12)
    redis:cli('ZREMRANGEBYRANK', day, 0, 0)
    redis:cli('ZADD', day, 0, 'nonsense')
    local page = c:document 'PEEK t 100'
    assert.matches('10 11 12$', offsets(page))
    assert.is_nil(offsets(page):find '^0')
    broker:expect_log 'the batch at offset 0 cannot be read and is left out: corrupt'
  end)

  it('refuses to read says so', function()
    redis:cli('RENAME', redis:cli('KEYS', 'tide:{//t#0}:log:*'), 'kept')
    redis:cli('SET', 'tide:{//t#0}:log:' .. os.date '!%Y%m%d', 'x')
    assert.equal("ERR store the partition cannot be read now; the broker's log says why", c:request 'PEEK t')
    broker:expect_log 'WRONGTYPE'
    redis:cli('RENAME', 'kept', 'tide:{//t#0}:log:' .. os.date '!%Y%m%d')
    assert(wait.poll(function() return c:request('PEEK t'):find '^DATA' and c:read_line() end))
  end)
end)
