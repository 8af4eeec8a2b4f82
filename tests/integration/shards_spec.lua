-- What PEEK shows of a queue with several shards, and what KICK takes.
local Broker = require 'support.broker'
local Client = require 'support.client'
local socket = require 'socket'
local wait = require 'support.wait'

describe('in a queue with several shards', function()
  local broker, c

  setup(function() broker = Broker.start { args = { '--window-messages', '16', '--fsync', 'no' } } end)
  teardown(function() broker:destroy() end)
  before_each(function()
    c = broker:enter_vhost()
    c:ok 'DECLARE queue q shards=4 sharding=round_robin'
  end)
  after_each(function() c:close() end)

  local function publish(count)
    for i = 1, count do c:ok('PUB - q', tostring(i)) end
  end

  local payloads = Client.payloads

  it('PEEK shows the oldest first, and of each shard what GET takes next', function()
    c:ok 'DECLARE queue by shards=3 sharding.by=n'
    for i = 1, 40 do c:ok(('PUB - by h:n=%d'):format(i % 5), tostring(i)) end
    assert.equal(2, #c:get 'by max=2 ack=auto')
    -- Some shards are longer than their window, and all have other lengths.
    local shown = c:peek 'by 38'
    assert.same({ table.unpack(payloads(shown), 1, 3) }, payloads(c:peek 'by 3'))
    local by_shard = {}
    for i, m in ipairs(shown) do
      assert.is_true(i == 1 or shown[i - 1].id < m.id)
      by_shard[m.shard] = by_shard[m.shard] or {}
      table.insert(by_shard[m.shard], m.id)
    end
    for _ = 1, 38 do
      local id = c:get('by ack=auto wait=20s')[1].options.id
      for _, ids in pairs(by_shard) do
        if ids[1] == id then table.remove(ids, 1) end
      end
    end
    for _, ids in pairs(by_shard) do assert.same({}, ids) end
  end)

  --- Bury all in the opposite order, one a millisecond.
  local function bury(count)
    local held = c:get('q max=' .. count)
    assert.equal(count, #held)
    local order = {}
    for i = count, 1, -1 do
      c:ok(('NACK %s dead'):format(held[i].tag))
      order[#order + 1] = held[i].payload
      local last = socket.gettime()
      assert(wait.poll(function() return socket.gettime() > last + 0.002 end))
    end
    return order
  end

  it('PEEK shows first, and KICK takes first, what was buried first', function()
    publish(8)
    local order = bury(8)
    assert.same({ table.unpack(order, 1, 3) }, payloads(c:peek 'q 3 state=buried'))
    assert.equal('3', c:ok 'KICK q 3')
    local ready = payloads(c:peek 'q 100')
    table.sort(ready)
    local expected = { table.unpack(order, 1, 3) }
    table.sort(expected)
    assert.same(expected, ready)
    assert.same({ table.unpack(order, 4) }, payloads(c:peek 'q 100 state=buried'))
    -- Now Redis has them alone.
    broker:restart()
    c = broker:connect()
    assert.same({ table.unpack(order, 4, 5) }, payloads(c:peek 'q 2 state=buried'))
    assert.equal('2', c:ok 'KICK q 2')
    assert.same({ table.unpack(order, 6) }, payloads(c:peek 'q 100 state=buried'))
    assert.equal('3', c:ok 'KICK q 100')
    assert.equal(8, c:stats('q').ready)
  end)

  it('PEEK shows first, and KICK takes first when none is buried, what is due first', function()
    for _, delay in ipairs { 5, 3, 9, 1, 7 } do c:ok(('PUB - q delay=%dh'):format(delay), tostring(delay)) end
    assert.same({ '1', '3', '5' }, payloads(c:peek 'q 3 state=delayed'))
    for words, n in pairs { ['q'] = 0, ['q dry'] = 0, ['q 2 dry'] = 2, ['q 9 dry'] = 5, ['q 2 match=key:q'] = 0 } do
      c:expect_answer('KICK ' .. words, 'OK ' .. n)
    end
    c:expect_answer('KICK q 2', 'OK 2')
    assert.same({ '5', '7', '9' }, payloads(c:peek 'q 100 state=delayed'))
    broker:restart()
    c = broker:connect()
    c:expect_answer('KICK q 2', 'OK 2')
    assert.same({ '9' }, payloads(c:peek 'q 100 state=delayed'))
    bury(1)
    c:expect_answer('KICK q 10', 'OK 1')
    c:expect_answer('KICK q 10', 'OK 1')
    c:expect_answer('KICK q 10', 'OK 0')
    local stats = c:stats 'q'
    assert.same({ 5, 0, 1, 4 }, { stats.ready, stats.delayed, stats.buries, stats.kicks })
  end)
end)
