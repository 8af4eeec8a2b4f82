-- What STATS shows of each shard of a queue.
local Broker = require 'support.broker'
local wait = require 'support.wait'

describe('per_shard in STATS of a queue', function()
  local broker, c

  setup(function() broker = Broker.start { args = { '--window-messages', '16', '--fsync', 'no' } } end)
  teardown(function() broker:destroy() end)
  before_each(function() c = broker:enter_vhost() end)
  after_each(function() c:close() end)

  local function sizes()
    local list = {}
    for i, s in ipairs(c:stats('q').per_shard) do
      assert.equal(i - 1, s.shard)
      list[i] = ('%d %d %d %d'):format(s.ready, s.delayed, s.unacked, s.buried)
    end
    return list
  end

  --- Twenty messages in each shard, more than its window, one of them held. The one of shard 1
  --- is buried then, and shard 0 gets a delayed one.
  local function fill(options)
    c:ok('DECLARE queue q shards=3 sharding=round_robin ' .. options)
    for i = 0, 59 do c:ok('PUB - q', tostring(i % 3)) end
    local buried = 0
    for _, m in ipairs(c:get 'q max=3') do
      if m.payload == '1' then
        c:ok(('NACK %s dead'):format(m.tag))
        buried = buried + 1
      end
    end
    assert.equal(1, buried)
    c:ok('PUB - q delay=1h', 'later')
  end

  for _, options in ipairs { 'durable=1', 'durable=0' } do
    it('counts what each shard has in each state, with ' .. options, function()
      fill(options)
      assert.same({ '19 1 1 0', '19 0 0 1', '19 0 1 0' }, sizes())
    end)
  end

  it('counts the same after a restart', function()
    fill 'durable=1'
    broker:restart()
    c = broker:connect()
    assert.same({ '20 1 0 0', '19 0 0 1', '20 0 0 0' }, sizes())
  end)

  it('has every shard, also one that was never used', function()
    c:ok 'DECLARE queue q shards=3 sharding=round_robin'
    c:ok('PUB - q', 'x')
    assert.same({ '1 0 0 0', '0 0 0 0', '0 0 0 0' }, sizes())
  end)

  it('has one element in a queue that was declared without shards', function()
    c:ok 'DECLARE queue q'
    assert.same({ '0 0 0 0' }, sizes())
  end)
end)

describe('per_priority in STATS of a queue', function()
  local broker, c

  setup(function() broker = Broker.start { args = { '--store', 'none' } } end)
  teardown(function() broker:destroy() end)
  before_each(function() c = broker:enter_vhost() end)
  after_each(function() c:close() end)

  local function priorities()
    local list, ages = {}, {}
    for i, p in ipairs(c:stats('q').per_priority) do
      list[i], ages[p.priority] = p.priority, p.oldest_ready_ms
    end
    return table.concat(list, ' '), ages
  end

  for _, options in ipairs { 'priority=strict', 'priority=strict shards=3 sharding=round_robin', 'priority=aging' } do
    it('says how long the oldest of each has waited, with ' .. options, function()
      c:ok('DECLARE queue q ' .. options)
      assert.equal('', (priorities()))
      c:publish('q pri=2', 'a')
      assert.is_true(wait.poll(function() return select(2, priorities())[2] > 0 end))
      c:publish('q pri=9', 'b', 'c')
      c:publish('q pri=2', 'd')
      c:publish('q pri=5 delay=1h', 'e')
      local list, ages = priorities()
      assert.equal('9 2', list)
      assert.is_true(ages[2] > ages[9])
      c:get 'q max=3'
      assert.equal('2', (priorities()))
    end)
  end

  it('is absent without priorities', function()
    c:ok 'DECLARE queue q'
    c:publish('q pri=2', 'a')
    assert.is_nil(c:stats('q').per_priority)
  end)
end)
