-- REDRIVE sends dead letters back where they came from, and loses none.
local Broker = require 'support.broker'
local Client = require 'support.client'
local wait = require 'support.wait'

local payloads = Client.payloads

local function numbers(first, last)
  local list = {}
  for i = first, last do list[#list + 1] = tostring(i) end
  return list
end

local function publish(c, exchange, key, first, last, words)
  local lines = {}
  for i = first, last do
    lines[#lines + 1] = ('PUB %s %s%s %d\r\n%d\r\n'):format(exchange, key, words and words(i) or '', #tostring(i), i)
  end
  c:send(table.concat(lines))
  for _ = first, last do c:expect '^OK %x+ 1$' end
end

--- GET until there are so many, in the order in which they come.
local function take(c, queue, count)
  local all = {}
  while #all < count do
    for _, m in ipairs(c:get(('%s max=%d wait=20s ack=auto'):format(queue, count - #all))) do all[#all + 1] = m end
  end
  return all
end

--- So many are published and rejected.
local function die(c, queue, exchange, key, first, last, words)
  publish(c, exchange, key, first, last, words)
  local left = last - first + 1
  while left > 0 do
    local got = c:get(('%s max=%d wait=20s'):format(queue, math.min(left, 1000)))
    if #got > 0 then c:ok(('NACK %s-%s dead'):format(got[1].tag, got[#got].tag)) end
    left = left - #got
  end
  assert(wait.poll(function() return c:stats('dead').ready >= last - first + 1 end))
end

for _, kind in ipairs {
  { name = 'with a backlog in Redis', args = { '--window-messages', '16', '--fsync', 'no' } },
  { name = 'in memory', args = { '--store', 'none' } },
} do
  describe('REDRIVE ' .. kind.name, function()
    local broker, c

    setup(function() broker = Broker.start { args = kind.args } end)
    teardown(function()
      broker:expect_clean_stop()
      broker:destroy()
    end)
    before_each(function()
      c = broker:enter_vhost()
      c:ok 'DECLARE exchange x topic'
      c:ok 'DECLARE queue dead'
      c:ok 'DECLARE queue q dead-letter=-/dead'
      c:ok 'BIND q x #'
    end)
    after_each(function() c:close() end)

    it('sends all back by exchange and key, with their history and no attempts', function()
      die(c, 'q', 'x', 'orders.new', 1, 500, function(i) return ' pri=3 h:n=' .. i end)
      assert.equal('500 0', c:ok 'REDRIVE dead')
      local stats = c:stats 'dead'
      assert.equal(0, stats.ready + stats.unacked + stats.delayed + stats.buried)
      local all = take(c, 'q', 500)
      assert.same(numbers(1, 500), payloads(all))
      for i, m in ipairs(all) do
        assert.same({ 'x', 'orders.new', 1, '3', tostring(i) },
          { m.exchange, m.key, m.attempt, m.options.pri, m.headers.n })
        assert.is_false(m.redelivered)
        assert.same({ 'rejected', 'q', '1' }, { m.headers['x-death-reason'], m.headers['x-death-queue'],
          m.headers['x-death-total'] })
      end
      assert.equal('0 0', c:ok 'REDRIVE dead')
    end)

    it('sends as many as it is asked to, and those that match', function()
      die(c, 'q', 'x', 'k', 1, 10, function(i) return ' h:n=' .. i end)
      assert.equal('3 0', c:ok 'REDRIVE dead 3')
      assert.same(numbers(1, 3), payloads(take(c, 'q', 3)))
      assert.equal('1 0', c:ok 'REDRIVE dead match=h:n=7')
      assert.equal('1 0', c:ok 'REDRIVE dead 1 match=key:dead')
      assert.same({ '7', '4' }, payloads(take(c, 'q', 2)))
      assert.equal('0 0', c:ok 'REDRIVE dead match=h:x-death-reason=expired')
      assert.equal('5 0', c:ok 'REDRIVE dead 100 match=h:x-death-reason=rejected')
      assert.same({ '5', '6', '8', '9', '10' }, payloads(take(c, 'q', 5)))
      c:send 'REDRIVE dead quiet\r\nREDRIVE dead match=x quiet\r\n'
      c:expect_nothing()
    end)

    it('reaches what stands behind many that stay', function()
      c:ok 'DELETE queue dead'
      c:ok 'DECLARE queue dead shards=2 sharding=round_robin'
      die(c, 'q', 'x', 'k', 1, 400, function(i) return ' h:n=' .. i end)
      assert.equal('1 0', c:ok 'REDRIVE dead match=h:n=333')
      assert.equal('1 0', c:ok 'REDRIVE dead 1 match=h:n=399')
      assert.same({ '333', '399' }, payloads(take(c, 'q', 2)))
      assert.equal(398, c:stats('dead').ready)
      c:ok 'UNBIND q x #'
      assert.equal('0 398', c:ok 'REDRIVE dead routed')
      local stats = c:stats 'dead'
      assert.equal(398, stats.ready)
      assert.equal(0, stats.unacked + stats.delayed + stats.buried)
      c:ok 'BIND q x #'
      assert.equal('398 0', c:ok 'REDRIVE dead')
      local all, expected = payloads(take(c, 'q', 398)), {}
      for i = 1, 400 do
        if i ~= 333 and i ~= 399 then expected[#expected + 1] = tostring(i) end
      end
      table.sort(all, function(a, b) return tonumber(a) < tonumber(b) end)
      assert.same(expected, all)
    end)

    it('sends to where it is told', function()
      c:ok 'DECLARE queue other'
      publish(c, '-', 'dead', 1, 4)
      assert.equal('1 0', c:ok 'REDRIVE dead 1 to=-/other')
      assert.equal('1 0', c:ok 'REDRIVE dead 1 to=x/key.of.its.own')
      assert.equal('2 0', c:ok 'REDRIVE dead to=x/')
      local m = take(c, 'other', 1)[1]
      assert.same({ '-', 'other', '1' }, { m.exchange, m.key, m.payload })
      local keys = {}
      for i, one in ipairs(take(c, 'q', 3)) do keys[i] = one.exchange .. '/' .. one.key end
      assert.same({ 'x/key.of.its.own', 'x/dead', 'x/dead' }, keys)
    end)

    it('leaves what it cannot send where it is, and counts it', function()
      publish(c, '-', 'dead', 1, 2)
      die(c, 'q', 'x', 'k', 3, 4)
      assert.equal('2 2', c:ok 'REDRIVE dead')
      assert.same({ '1', '2' }, payloads(c:peek 'dead 100'))
      take(c, 'q', 2)
      die(c, 'q', 'x', 'k', 5, 6)
      c:ok 'UNBIND q x #'
      assert.equal('0 4', c:ok 'REDRIVE dead routed')
      c:ok 'DELETE exchange x'
      assert.equal('0 4', c:ok 'REDRIVE dead routed')
      c:ok 'DELETE queue q'
      assert.equal('0 4', c:ok 'REDRIVE dead')
      broker:expect_log "queue 'q', where it died, is gone: use routed or to="
      local stats = c:stats 'dead'
      assert.equal(4, stats.ready)
      assert.same({ '1', '2', '5', '6' }, payloads(c:peek 'dead 100'))
      assert.equal(1, c:get('dead')[1].attempt)
    end)

    it('brings them to the queue where they died alone; with routed by the exchange once more', function()
      c:ok 'DECLARE queue other'
      c:ok 'BIND other x #'
      publish(c, '-', 'q', 1, 1)
      c:send 'PUB x k 1\r\n2\r\n'
      c:expect '^OK %x+ 2$'
      take(c, 'other', 1)
      for _, m in ipairs(c:get 'q max=2') do c:ok(('NACK %s dead'):format(m.tag)) end
      assert(wait.poll(function() return c:stats('dead').ready == 2 end))
      assert.equal('2 0', c:ok 'REDRIVE dead')
      assert.equal(0, c:stats('other').ready)
      local got = c:get 'q max=2'
      assert.same({ '1', '2' }, payloads(got))
      assert.same({ '-', 'q', 'x', 'k' }, { got[1].exchange, got[1].key, got[2].exchange, got[2].key })
      for _, m in ipairs(got) do c:ok(('NACK %s dead'):format(m.tag)) end
      assert(wait.poll(function() return c:stats('dead').ready == 2 end))
      assert.equal('2 0', c:ok 'REDRIVE dead routed')
      assert.same({ '1', '2' }, payloads(take(c, 'q', 2)))
      assert.same({ '2' }, payloads(take(c, 'other', 1)))
    end)

    it('brings a topic its message back', function()
      c:ok 'DECLARE topic t partitions=1 dead-letter=-/dead'
      c:ok('PUB - t h:n=1', 'a')
      c:ok(('NACK %s dead'):format(c:get('t group=g from=first wait=20s')[1].tag))
      assert(wait.poll(function() return c:stats('dead').ready == 1 end))
      assert.equal('1 0', c:ok 'REDRIVE dead')
      assert.equal('1', c:get('t group=g wait=20s')[1].headers.n)
    end)

    it('ends also when what it sends comes back', function()
      die(c, 'q', 'x', 'k', 1, 40)
      assert.equal('40 0', c:ok 'REDRIVE dead to=-/dead')
      assert.equal(40, c:stats('dead').ready)
      assert.equal('40 0', c:ok 'REDRIVE dead')
    end)

    it('refuses what makes no sense', function()
      local expected = ': expected <exchange>/<key>, with - for the default exchange, which needs a key (a queue\'s '
        .. 'name); without a key the message keeps its own'
      for _, bad in ipairs { '', '-', '-/', '/k' } do
        c:expect_answer('REDRIVE dead to=' .. bad, ('ERR syntax to=%s%s'):format(bad, expected))
      end
      c:expect_answer('REDRIVE dead to=nowhere/k',
        "ERR not-found there is no exchange 'nowhere' in vhost '" .. broker.vhost .. "'")
      c:expect_answer('REDRIVE dead routed to=x/k',
        'ERR syntax routed goes by the exchange where they came from, and to= elsewhere: give one of them')
      c:expect_answer('REDRIVE nobody', "ERR not-found there is no queue 'nobody' in vhost '" .. broker.vhost .. "'")
    end)
  end)
end

describe('REDRIVE', function()
  local broker

  after_each(function() broker:destroy() end)

  local function prepare(count, options)
    broker = Broker.start { args = options or { '--window-messages', '64' } }
    local c = broker:connect()
    c:ok 'DECLARE queue dead shards=2 sharding=round_robin'
    c:ok 'DECLARE queue q dead-letter=-/dead'
    die(c, 'q', '-', 'q', 1, count)
    return c
  end

  --- Every message is in one of the two queues, or in both.
  local function expect_all(c, count)
    local seen = {}
    for _, queue in ipairs { 'q', 'dead' } do
      local after = ''
      repeat
        local page = c:document(('PEEK %s 100%s'):format(queue, after))
        for _, m in ipairs(page.messages) do seen[m.payload] = true end
        after = page.next and ' after=' .. page.next
      until not after
    end
    for i = 1, count do assert.is_true(seen[tostring(i)], i .. ' is lost') end
  end

  it('loses none when broker and Redis are killed in the middle, and goes on afterwards', function()
    local count = 3000
    local c = prepare(count)
    c:send 'REDRIVE dead\r\n'
    local judge = broker:connect()
    assert(wait.poll(function() return judge:stats('q').ready > 0 end))
    broker:kill9_all()
    broker:run()
    c = broker:connect()
    expect_all(c, count)
    local ready = c:stats('dead').ready
    assert.equal(('%d 0'):format(ready), c:ok 'REDRIVE dead')
    assert.equal(0, c:stats('dead').ready)
    expect_all(c, count)
    broker:expect_clean_stop()
  end)

  it('goes on when its client is gone, and over a Redis that is killed', function()
    local c = prepare(2000)
    c:send 'REDRIVE dead\r\n'
    local judge = broker:connect()
    assert(wait.poll(function() return judge:stats('q').ready > 0 end))
    c:close()
    broker:kill9_redis()
    assert(wait.poll(function()
      local stats = judge:stats 'q'
      return stats.ready == 2000 and judge:stats('dead').ready == 0
    end))
    broker:expect_clean_stop()
  end)

  it('keeps what Redis has no room for', function()
    local c = prepare(300)
    -- All are durable: what is on its way there may be refused too.
    assert(wait.poll(function()
      local count = 0
      for shard = 0, 1 do
        count = count + tonumber((broker:redis_cli('ZCARD', ('tide:{//dead#%d}:ready'):format(shard)):match '%d+'))
      end
      return count == 300
    end))
    broker:redis_cli('CONFIG', 'SET', 'maxmemory', '1')
    c:send 'REDRIVE dead\r\n'
    c:expect "^ERR store OOM"
    broker:redis_cli('CONFIG', 'SET', 'maxmemory', '0')
    assert(wait.poll(function() return c:stats('dead').ready == 300 end))
    assert.equal('300 0', c:ok 'REDRIVE dead')
    expect_all(c, 300)
    broker:expect_clean_stop()
  end)

  it('ends with its queue, and with the broker', function()
    local c = prepare(2000)
    local judge = broker:connect()
    c:send 'REDRIVE dead\r\n'
    assert(wait.poll(function() return judge:stats('q').ready > 0 end))
    judge:ok 'DELETE queue dead'
    local answer = c:read_line()
    assert.is_truthy(answer:find '^OK 2000 0$' or answer:find '^ERR not%-found the queue was deleted', answer)
    judge:ok 'DECLARE queue dead'
    die(judge, 'q', '-', 'q', 3001, 4000)
    c:send 'REDRIVE dead\r\n'
    broker:expect_clean_stop()
  end)
end)
