-- The small batches of slow producers become large ones, and nobody sees a difference.
local Broker = require 'support.broker'
local wait = require 'support.wait'

local PAYLOAD = ('x'):rep(120)

local function payload_of(i) return ('%08d'):format(i) .. PAYLOAD end

--- Publish one message after the other, each when the one before is confirmed.
local function publish_slowly(c, from, to)
  for i = from, to do c:ok('PUB - t', payload_of(i)) end
end

--- All messages of partition 0, in order.
local function read_all(c)
  local last = c:stats('t').per_partition[1]['end']
  local read = {}
  c:ok 'SUB t all from=first ack=auto'
  for offset = 0, last - 1 do
    local m = c:expect_msg()
    assert.equal(tostring(offset), m.options.offset)
    read[offset] = m.payload
  end
  c:ok 'UNSUB all'
  return read, last
end

describe('the batches of a slow producer', function()
  local broker

  after_each(function() broker:destroy() end)

  local function today() return broker:redis_cli('--scan', '--pattern', 'tide:{//t#0}:log:*') end
  -- A Redis that a killed broker left ends in a moment, and is started again.
  local function batches()
    return wait.poll(function()
      local count = tonumber(broker:redis_cli('ZCARD', today()))
      return count and count > 0 and count
    end) or error 'Redis shows no batches'
  end

  it('become few, and a message costs little more than what it weighs', function()
    broker = Broker.start { args = { '--fsync', 'no', '--topic-memory', '1M' } }
    local c = broker:connect()
    local count = 3000
    c:ok 'DECLARE topic t partitions=1'
    publish_slowly(c, 1, count)
    assert(wait.poll(function() return batches() < 60 end), batches() .. ' batches')
    local each = tonumber(broker:redis_cli('MEMORY', 'USAGE', today(), 'SAMPLES', 0)) / count
    assert(each < #payload_of(1) * 1.25, each .. ' bytes for a message')
    assert(c:document('STATS').logs.merged >= count - 60)
    for _ = 1, 2 do
      local read = read_all(c)
      for i = 1, count do assert.equal(payload_of(i), read[i - 1]) end
      c:close()
      broker:restart()
      c = broker:connect()
    end
    broker:expect_clean_stop()
  end)

  it('are the same messages after kill -9 at any moment', function()
    local seed = require 'support.seed'
    local published, confirmed = 0, {}

    math.randomseed(seed)
    broker = Broker.start { args = { '--topic-memory', '1M' } }
    local c = broker:connect()
    c:ok 'DECLARE topic t partitions=1'
    for round = 1, tonumber(os.getenv 'TIDE_CHAOS_ROUNDS') or 6 do
      for _ = 1, 100 + math.random(200) do
        published = published + 1
        local answer = c:request('PUB - t', payload_of(published))
        confirmed[tonumber(answer:match '^OK %x+ 1 0:(%d+)$')] = payload_of(published)
      end
      -- One whose answer nobody has seen may be there, or not.
      published = published + 1
      c:send(('PUB - t %d\r\n%s\r\n'):format(#payload_of(published), payload_of(published)))
      if math.random(2) == 1 then broker:kill9() else broker:kill9_all() end
      c:close()
      broker:run()
      c = broker:connect()
      local read, last = read_all(c)
      for offset, payload in pairs(confirmed) do
        assert.equal(payload, read[offset], ('round %d, seed %d, offset %d'):format(round, seed, offset))
      end
      assert(last <= published)
    end
    assert(batches() < published / 2, batches() .. ' batches')
    broker:expect_clean_stop()
  end)
end)
