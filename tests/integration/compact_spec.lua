-- compact=key: of a topic the last message of each key stays.
local Broker = require 'support.broker'
local Clock = require 'support.clock'
local shell = require 'support.shell'
local wait = require 'support.wait'

local FILL = ('x'):rep(1000)

--- Topic t is bound to exchange states with all keys.
local function declare(c, words)
  c:ok 'DECLARE exchange states topic'
  c:ok('DECLARE topic t compact=key ' .. (words or 'partitions=1'))
  c:ok 'BIND t states #'
end

--- Publish `count` messages of keys k1 … k<keys> in turn; each says its number.
local function publish(c, count, keys, from)
  local lines = {}
  for i = from, from + count - 1 do
    local payload = i .. ' ' .. FILL
    lines[#lines + 1] = ('PUB states k%d %d\r\n%s\r\n'):format(i % keys + 1, #payload, payload)
    if #lines == 50 or i == from + count - 1 then
      c:send(table.concat(lines))
      for _ = 1, #lines do c:expect '^OK %x+ 1 %d+:%d+$' end
      lines = {}
    end
  end
end

local function partition(c) return c:stats('t').per_partition[1] end

--- A pass has ended behind the offset.
local function wait_compacted(c, offset)
  assert(wait.poll(function() return partition(c).compacted > offset end, 20), 'no pass has ended')
end

--- What a reader gets from the first message on: offset, key and payload of each.
local function read(broker)
  local c = broker:connect()
  local last = partition(c)['end'] - 1
  local all = {}
  c:ok 'SUB t s from=first ack=auto'
  repeat
    local m = c:expect_msg()
    all[#all + 1] = { offset = tonumber(m.options.offset), key = m.key, payload = m.payload }
    if #all > 1 then assert(all[#all].offset > all[#all - 1].offset) end
  until all[#all].offset == last
  c:close()
  return all
end

--- Below the offset a key is there once, at most; the last message of each key is there.
local function expect_last_ones(broker, c, keys)
  local compacted, total = partition(c).compacted, partition(c)['end']
  local below, last = {}, {}
  for _, m in ipairs(read(broker)) do
    assert.equal(('k%d'):format(m.offset % keys + 1), m.key)
    assert.equal(m.offset .. ' ' .. FILL, m.payload)
    if m.offset < compacted then
      assert.is_nil(below[m.key])
      below[m.key] = m.offset
    end
    last[m.key] = m.offset
  end
  for offset = total - keys, total - 1 do assert.equal(offset, last[('k%d'):format(offset % keys + 1)]) end
end

describe('a compacted topic', function()
  local broker, c

  -- A small tail, so that readers see what Redis has.
  before_each(function()
    broker = Broker.start { args = { '--fsync', 'no', '--topic-memory', '1M' } }
    c = broker:connect()
  end)
  after_each(function()
    c:close()
    broker:expect_clean_stop()
    broker:destroy()
  end)

  it('keeps its messages for ever, unless a retention is given', function()
    c:ok 'DECLARE topic t compact=key'
    c:ok 'DECLARE topic t compact=key retention=0'
    assert.same({ compact = 'key', retention = '0' }, c:document('LIST topics')[1].options)
    assert.matches('^ERR mismatch .* it has retention=0, not retention=1d; the option update changes that$',
      c:request 'DECLARE topic t compact=key retention=1d')
    assert.matches('^ERR syntax compact=key is for durable topics: ', c:request 'DECLARE topic u compact=key durable=0')
  end)

  it('keeps the last message of each key, at its offset', function()
    declare(c)
    publish(c, 6000, 50, 0)
    wait_compacted(c, 3000)
    local p = partition(c)
    assert.equal(0, p.start)
    assert.equal(6000, p['end'])
    assert(p.bytes < 4000 * #FILL, p.bytes .. ' bytes')
    assert(c:document('STATS').logs.compacted > 2000)
    expect_last_ones(broker, c, 50)
    c:close()
    broker:restart()
    c = broker:connect()
    expect_last_ones(broker, c, 50)
  end)

  it('tells nobody that messages were skipped, and lets groups commit over gaps', function()
    declare(c)
    publish(c, 4000, 20, 0)
    wait_compacted(c, 1000)
    c:ok 'SUB t s group=g from=first prefetch=5000'
    c:expect '^EVT assigned s 0$'
    local m
    repeat
      m = c:expect_msg() -- fails with an EVT
    until m.options.offset == '3999'
    c:ok('ACK 1-' .. m.tag)
    assert(wait.poll(function() return c:document('LIST groups')[1].partitions[1].committed == 4000 end))
    assert.equal(0, c:document('LIST groups')[1].lag)
  end)

  it('keeps messages of each partition apart', function()
    declare(c, 'partitions=2')
    publish(c, 8000, 30, 0)
    assert(wait.poll(function()
      for _, p in ipairs(c:stats('t').per_partition) do
        if p.bytes > 1.6e6 and p.compacted == 0 then return false end
      end
      return true
    end, 20))
    local seen, last, ends, at = {}, {}, {}, {}
    for _, p in ipairs(c:stats('t').per_partition) do ends[p.partition], at[p.partition] = p['end'], 0 end
    c:ok 'SUB t s from=first ack=auto'
    while at[0] < ends[0] or at[1] < ends[1] do
      local m = c:expect_msg()
      local n = tonumber(m.options.partition)
      at[n] = tonumber(m.options.offset) + 1
      assert(not seen[m.key] or seen[m.key] == n)
      seen[m.key], last[m.key] = n, tonumber(m.payload:match '^%d+')
    end
    for key = 1, 30 do assert(last['k' .. key] >= 8000 - 30) end
  end)
end)

describe('a tombstone', function()
  it('removes the earlier messages of its key, and goes itself a day later', function()
    if Broker.is_sanitized() then
      pending 'no other clock under AddressSanitizer'
      return
    end
    local clock = Clock.new()
    local broker = Broker.start { env = clock.env, args = { '--fsync', 'no', '--topic-memory', '1M' } }
    local c = broker:connect()
    declare(c)
    local function has(key)
      for _, m in ipairs(read(broker)) do
        if m.key == key then return m end
      end
    end
    c:ok('PUB states gone', FILL)
    local _, place = c:ok('PUB states gone', ''):match '^(%x+) 1 0:(%d+)$'
    publish(c, 3000, 10, 2)
    wait_compacted(c, 1)
    local tombstone = has 'gone'
    assert.equal(tonumber(place), tombstone.offset)
    assert.equal('', tombstone.payload)
    clock:set(25 * 3600)
    publish(c, 3000, 10, 3002)
    wait_compacted(c, 3002)
    assert.is_nil(has 'gone')
    broker:expect_clean_stop()
    broker:destroy()
    clock:destroy()
  end)
end)

describe('a pass', function()
  it('loses nothing when broker and Redis are killed in it', function()
    local seed = require 'support.seed'
    local keys, published = 40, 0

    math.randomseed(seed)
    local broker = Broker.start { args = { '--topic-memory', '1M' } }
    local c = broker:connect()
    declare(c)
    for round = 1, tonumber(os.getenv 'TIDE_CHAOS_ROUNDS') or 5 do
      publish(c, 2500, keys, published)
      published = published + 2500
      -- A pass is under way, or about to be.
      for _ = 1, math.random(0, 30) do c:stats 't' end
      if math.random(2) == 1 then broker:kill9() else broker:kill9_all() end
      c:close()
      broker:run()
      c = broker:connect()
      local last, all = {}, read(broker)
      for _, m in ipairs(all) do
        assert.equal(m.offset .. ' ' .. FILL, m.payload)
        last[m.key] = m.offset
      end
      assert.equal(published, partition(c)['end'])
      for key = 1, keys do
        assert(last['k' .. key] >= published - keys, ('round %d, seed %d, key %d'):format(round, seed, key))
      end
    end
    wait_compacted(c, published - 4000)
    expect_last_ones(broker, c, keys)
    broker:expect_clean_stop()
    local text, status = shell.run(('%s check-store --data %s 2>&1'):format(shell.quote(Broker.binary()),
      shell.quote(broker.data)))
    assert.equal(0, status, text)
    broker:destroy()
  end)
end)
