-- Every generation is built between the turns of the loop: by a rollback, for the
-- shadow, by a promotion. What comes meanwhile, who goes away meanwhile.
local Broker = require 'support.broker'
local json = require 'dkjson'
local wait = require 'support.wait'

local function fixed(n)
  return ('return { pick = function() return %d end }\n'):format(n)
end

local broker, c

-- What a sanitized broker does with a third of them takes as many turns.
local SHARE = Broker.is_sanitized() and 3 or 1

--- A broker with so much in it that a build takes many turns.
local function start(bindings)
  bindings = bindings // SHARE
  broker = Broker.start {
    rules = { ['sharding/mine.lua'] = fixed(0) },
    args = { '--store', 'none', '--rules-memory', '256M' },
  }
  c = broker:connect()
  c:ok 'DECLARE exchange x topic'
  c:ok 'DECLARE queue q shards=4 sharding=mine'
  local lines = {}
  for n = 1, 50 do lines[#lines + 1] = 'DECLARE queue q' .. n end
  for n = 1, bindings do
    lines[#lines + 1] = ('BIND q%d x w%d.x%d.* quiet'):format(n % 50 + 1, n % 100, n // 100)
  end
  lines[#lines + 1] = 'PING'
  c:send(table.concat(lines, '\r\n') .. '\r\n')
  for _ = 1, 51 do c:expect_line 'OK' end
end

local function reload(text)
  broker:write_rule('sharding/mine.lua', text)
  return c:document 'RULES reload'
end

local function shard()
  return c:document('EXPLAIN - q').queues[1].shard
end

--- Those of the watching come when they come.
local function origins()
  local list = {}
  for _, entry in ipairs(c:document 'RULES log') do
    if entry.origin ~= 'files' then list[#list + 1] = entry.origin end
  end
  return table.concat(list, ' ')
end

describe('a rollback', function()
  before_each(function()
    start(5000)
    reload(fixed(1))
  end)
  after_each(function() broker:destroy() end)

  it('is built in turns, and answered when it is active', function()
    local status = c:document 'RULES rollback'
    assert.equal('rollback', status.origin)
    assert.is_true(status.build.turns > 3, status.build.turns)
    assert.is_false(status.build.under_way)
    assert.equal(0, shard())
    assert.equal(1, #c:document('EXPLAIN x w7.x3.y').queues)
  end)

  it('does not hold up others', function()
    -- All three come at once: only the rollback takes more than a turn.
    c:send '@1 OPEN\r\nRULES rollback\r\n@1 PING\r\n'
    c:expect_line '@1 OK'
    c:expect_line '@1 OK'
    assert.equal('rollback', c:expect_json().origin)
    c:send '@1 CLOSE\r\n'
    c:expect_line '@1 OK'
  end)

  it('is in the way of another, and a reload comes after it', function()
    c:send 'RULES rollback\r\nRULES rollback\r\nRULES reload\r\nEXPLAIN - q\r\n'
    assert.equal('rollback', c:expect_json().origin)
    c:expect '^ERR busy other rules are being loaded'
    assert.equal('reload', c:expect_json().origin)
    -- Decided when it was asked, by the rules that were active then.
    assert.equal(1, c:expect_json().queues[1].shard)
    assert.equal(1, shard())
    assert.equal('reload rollback reload start', origins())
  end)

  it('is busy while a reload is under way', function()
    c:send 'RULES reload\r\nRULES rollback\r\n'
    assert.equal('reload', c:expect_json().origin)
    c:expect '^ERR busy'
  end)

  it('goes on without the connection that asked for it', function()
    local d = broker:connect()
    d:send 'RULES rollback\r\n'
    d:close()
    assert.is_truthy(wait.poll(function() return c:document('RULES status').origin == 'rollback' end))
    assert.equal(0, shard())
  end)

  it('is answered by a broker that stops in order', function()
    c:send 'RULES rollback\r\nPING\r\n'
    local d = broker:connect()
    d:ok 'PING'
    broker:expect_clean_stop()
    assert.equal('rollback', json.decode(c:expect_payload(c:drain_until '^DATA (%d+)$')).origin)
    c:expect_line 'OK'
  end)

  it('follows what is declared and bound meanwhile', function()
    c:send('RULES rollback\r\nDECLARE queue late\r\nBIND late x late.*\r\nUNBIND q8 x w7.x3.*\r\n'
      .. 'DELETE queue q9\r\n')
    assert.equal('rollback', c:expect_json().origin)
    for _ = 1, 4 do c:expect '^OK' end
    assert.equal('late', c:document('EXPLAIN x late.a').queues[1].queue)
    assert.equal(0, #c:document('EXPLAIN x w7.x3.y').queues)
    assert.equal(0, #c:document('EXPLAIN x w8.x3.y').queues)
  end)

  it('that is refused is noted with its own files', function()
    broker:write_rule('sharding/late.lua', fixed(1))
    c:document 'RULES reload'
    c:ok 'DECLARE queue l shards=4 sharding=late'
    c:send 'RULES rollback\r\n'
    c:expect "^ERR rule sharding/late.lua: is missing, but queue 'l' uses it"
    local entry = c:document('RULES log')[1]
    assert.equal('rollback', entry.origin)
    assert.equal('refused', entry.result)
    assert.same({ 'sharding/late.lua' }, entry.removed)
    assert.same({}, entry.added)
  end)
end)

describe('a shadow', function()
  before_each(function() start(20000) end)
  after_each(function() broker:destroy() end)

  it('is loaded in turns, while others are served', function()
    local d = broker:connect()
    c:send('RULES shadow ' .. broker:copy_rules('next', { ['sharding/mine.lua'] = fixed(3) }) .. ' share=100\r\n')
    local loading = 0
    repeat
      local status = d:document 'RULES shadow status'
      if status.loading then
        assert.is_false(status.active)
        assert.equal(broker.dir .. '/next', status.loading)
        loading = loading + 1
        d:ok('PUB x w7.x3.y', '1')
      end
    until status.active
    assert.is_true(loading > 2, loading)
    assert.is_true(c:expect_json().active)
    local before = c:document('RULES shadow status').compared
    d:ok('PUB x w7.x3.y', '1')
    d:ok('PUB - q', '1')
    local status = c:document 'RULES shadow status'
    assert.equal(before + 2, status.compared)
    assert.equal(1, status.differing)
  end)

  it('that is being loaded is neither promoted nor replaced, but may be dropped', function()
    local dir = broker:copy_rules('next', {})
    local d = broker:connect()
    c:send(('RULES shadow %s\r\nRULES shadow %s\r\nRULES shadow promote\r\n'):format(dir, dir))
    d:ok 'PING'
    d:ok 'RULES shadow drop'
    c:expect '^ERR not%-found the shadow was dropped before it was loaded'
    c:expect '^ERR exists'
    c:expect '^ERR busy the shadow is being loaded'
    assert.is_false(c:document('RULES shadow status').active)
    assert.is_true(c:document('RULES shadow ' .. dir).active)
  end)

  it('goes on without the connection that asked for it', function()
    local d = broker:connect()
    d:send('RULES shadow ' .. broker:copy_rules('next', {}) .. '\r\n')
    d:close()
    assert.is_truthy(wait.poll(function() return c:document('RULES shadow status').active end))
  end)

  it('is refused at the end of its loading', function()
    c:send('RULES shadow ' .. broker:copy_rules('next', { ['sharding/zz.lua'] = 'return {' }) .. '\r\n')
    c:expect '^ERR rule sharding/zz.lua:1:'
    assert.is_false(c:document('RULES shadow status').active)
  end)

  it('follows what changes while it is loaded', function()
    c:send('RULES shadow ' .. broker:copy_rules('next', {}) .. ' share=100\r\nDECLARE queue late\r\n'
      .. 'BIND late x late.*\r\nUNBIND q8 x w7.x0.*\r\n')
    assert.is_true(c:expect_json().active)
    for _ = 1, 3 do c:expect '^OK' end
    c:ok('PUB x late.a', '1')
    c:ok('PUB x w7.x0.y', '1')
    c:ok('PUB x w8.x3.y', '1')
    local status
    assert.is_truthy(wait.poll(function()
      c:ok('PUB x w8.x3.y', '1')
      status = c:document 'RULES shadow status'
      return status.compared > 0
    end))
    assert.equal(0, status.differing)
  end)

  it('ends with the broker', function()
    c:send('RULES shadow ' .. broker:copy_rules('next', {}) .. '\r\n')
    broker:connect():ok 'PING'
    broker:expect_clean_stop()
    c:expect '^%u+'
  end)

  it('is promoted in turns, and goes on until it is', function()
    local dir = broker:copy_rules('next', { ['sharding/mine.lua'] = fixed(3) })
    c:document('RULES shadow ' .. dir)
    c:send 'RULES shadow promote\r\nRULES shadow promote\r\nRULES shadow status\r\n'
    local status = c:expect_json()
    assert.equal('promote', status.origin)
    assert.is_true(status.build.turns > 3)
    c:expect '^ERR busy'
    assert.is_true(c:expect_json().active)
    assert.is_false(c:document('RULES shadow status').active)
    assert.equal(3, shard())
  end)

  it('may be dropped while it is promoted', function()
    local dir = broker:copy_rules('next', { ['sharding/mine.lua'] = fixed(3) })
    c:document('RULES shadow ' .. dir)
    c:send 'RULES shadow promote\r\nRULES shadow drop\r\n'
    assert.equal('promote', c:expect_json().origin)
    c:expect_line 'OK'
    assert.equal(3, shard())
  end)

  it('and a replay are loaded alike', function()
    c:ok('PUB - q', '1')
    c:send('RULES replay ' .. broker:copy_rules('next', { ['sharding/mine.lua'] = fixed(2) }) .. '\r\n')
    local d = broker:connect()
    d:send('RULES replay ' .. broker.rules .. '\r\n')
    d:expect '^ERR busy'
    assert.equal(1, c:expect_json().changed)
    c:send('RULES replay ' .. broker:copy_rules('broken', { ['sharding/mine.lua'] = 'return {' }) .. '\r\n')
    c:expect '^ERR rule sharding/mine.lua:1:'
    assert.equal(0, c:document('RULES replay ' .. broker.rules).changed)
  end)
end)
