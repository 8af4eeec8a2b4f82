-- tidemq check-store and topics: nothing is wrong with what a broker has written, and
-- damage to the log of a partition is found and left as it is.
local Broker = require 'support.broker'
local shell = require 'support.shell'

describe('a store with topics', function()
  local broker, redis, day

  setup(function()
    broker = Broker.start { redis = {} }
    redis = broker.redis
    local c = broker:connect()
    c:ok 'DECLARE topic events partitions=1 dedupe=1d'
    c:ok 'DECLARE topic spread partitions=4 sharding=round_robin'
    c:ok 'DECLARE topic compacted partitions=1 compact=key'
    -- A batch each.
    for _, topic in ipairs { 'events', 'compacted' } do
      for i = 1, 5 do assert.matches('^OK', c:request(('PUB - %s id=e%d'):format(topic, i), 'event ' .. i)) end
    end
    c:send(('PUB - spread 3\r\nabc\r\n'):rep(100))
    for _ = 1, 100 do c:expect '^OK' end
    c:ok 'SUB events s group=g from=first'
    c:expect_line 'EVT assigned s 0'
    for _ = 1, 5 do c:expect_msg() end
    c:ok 'ACK 1-3'
    broker:expect_clean_stop()
    day = redis:cli('KEYS', 'tide:{//events#0}:log:*')
  end)
  teardown(function() broker:destroy() end)

  local function check(...)
    local words = { shell.quote(Broker.binary()), 'check-store', '--store', shell.quote(redis.url), ... }
    return shell.run(table.concat(words, ' ') .. ' 2>&1 </dev/null')
  end

  local function expect_clean()
    local text, status = check()
    assert.equal(0, status, text)
    assert.matches('^%d+ keys, %d+ entries: 0 findings\n$', text)
  end

  --- The damage is found, survives --repair, and is undone.
  local function expect_found(...)
    local text, status
    for _, repair in ipairs { '', '--repair' } do
      text, status = check(repair)
      assert.equal(1, status, text)
      for _, line in ipairs { ... } do
        line = line .. '; --repair leaves it as it is\n'
        assert.truthy(('\n' .. text):find('\n' .. line, 1, true), line .. 'is not in\n' .. text)
      end
      assert.matches((': %d finding'):format(select('#', ...)), text)
    end
  end

  local function with_copy(key, damage, ...)
    redis:cli('COPY', key, 'kept')
    damage()
    -- What is set aside is no key of the broker's.
    local is_good, why = pcall(expect_found, ...)
    redis:cli('DEL', key)
    redis:cli('RENAME', 'kept', key)
    assert(is_good, why)
    expect_clean()
  end

  it('is clean, with groups and publish ids', function()
    assert.equal('5', redis:cli('ZCARD', 'tide:{//events#0}:dedupe'))
    assert.equal('5', redis:cli('ZCARD', day))
    expect_clean()
  end)

  it('has a batch of which a byte is wrong', function()
    with_copy(day, function()
      redis:cli('EVAL', [[
        local b = redis.call('ZRANGE', KEYS[1], 1, 1)[1]
        redis.call('ZREM', KEYS[1], b)
        return redis.call('ZADD', KEYS[1], 1, string.sub(b, 1, -2) .. 'X')]], 1, day)
    end, day .. ' 1: cannot be read: corrupt at byte 0 of '
      .. redis:cli('EVAL', "return #redis.call('ZRANGE', KEYS[1], 1, 1)[1]", 1, day) .. ': the checksum is wrong')
  end)

  it('has a batch at a score that is not its offset', function()
    with_copy(day, function()
      redis:cli('EVAL', "return redis.call('ZADD', KEYS[1], 7, redis.call('ZRANGE', KEYS[1], 4, 4)[1])", 1, day)
    end, day .. ' 7: cannot be read: the batch has another offset',
      day .. ' 3: the batch does not fit: the one behind it is missing')
  end)

  it('has two batches for one offset', function()
    local other = redis:cli('KEYS', 'tide:{//spread#0}:log:*')
    with_copy(day, function()
      redis:cli('EVAL', "return redis.call('ZADD', KEYS[1], 0, redis.call('ZRANGE', KEYS[2], 0, 0)[1])", 2, day, other)
    end, day .. ' 0: the batch does not fit: another batch has some of its offsets',
      day .. ' 0: the batch does not fit: another batch has some of its offsets')
  end)

  it('lacks a batch, which compaction alone may remove', function()
    with_copy(day, function() redis:cli('ZREMRANGEBYRANK', day, 2, 2) end,
      day .. ' 1: the batch does not fit: the one behind it is missing')
    redis:cli('ZREMRANGEBYRANK', redis:cli('KEYS', 'tide:{//compacted#0}:log:*'), 2, 2)
    expect_clean()
  end)

  it('lacks its first batches, as retention leaves it', function()
    redis:cli('COPY', day, 'kept')
    redis:cli('ZREMRANGEBYRANK', day, 0, 2)
    expect_clean()
    redis:cli('DEL', day)
    redis:cli('RENAME', 'kept', day)
  end)

  it('has a state that does not name a day', function()
    with_copy('tide:{//events#0}:log', function() redis:cli('HDEL', 'tide:{//events#0}:log', day:match '%d+$') end,
      day .. ': the log of its partition does not name the day')
  end)

  it('has publish ids of a partition that its topic does not have', function()
    redis:cli('ZADD', 'tide:{//events#1}:dedupe', '99999999999999', '687f6b32f9000000@0 a')
    expect_found 'tide:{//events#1}:dedupe: there is no such shard: its queue does not exist'
    redis:cli('DEL', 'tide:{//events#1}:dedupe')
    redis:cli('ZADD', 'tide:{//events#0}:dedupe', '99999999999999', '687f6b32f9000000@x a')
    expect_found('tide:{//events#0}:dedupe 687f6b32f9000000@x a: cannot be read: should be <message id> <publish id>')
    redis:cli('ZREM', 'tide:{//events#0}:dedupe', '687f6b32f9000000@x a')
    expect_clean()
  end)

  it('is clean beside a broker that appends and merges', function()
    broker:run()
    local c = broker:connect()
    for i = 1, 40 do c:ok('PUB - events id=l' .. i, 'late') end
    c:send(('PUB - spread 3\r\nabc\r\n'):rep(2000))
    expect_clean()
    for _ = 1, 2000 do c:expect '^OK' end
    broker:expect_clean_stop()
    expect_clean()
  end)
end)
