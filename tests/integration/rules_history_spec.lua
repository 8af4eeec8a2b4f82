-- Generations of rules: the history, going back, and the last good at a start
-- with broken rules.
local Broker = require 'support.broker'
local wait = require 'support.wait'

local function fixed(n)
  return ('return { pick = function() return %d end }\n'):format(n)
end

local function shard_of(c, queue)
  return c:document('EXPLAIN - ' .. queue).queues[1].shard
end

local function start(options)
  options = options or {}
  options.rules = options.rules or { ['sharding/mine.lua'] = fixed(0) }
  options.args = options.args or { '--fsync', 'no' }
  return Broker.start(options)
end

local function reload(broker, c, text)
  broker:write_rule('sharding/mine.lua', text)
  return c:document 'RULES reload'
end

--- Entries made by the watching of the directory depend on time; these do not.
local function asked(log)
  local list = {}
  for _, entry in ipairs(log) do
    if entry.origin ~= 'files' then list[#list + 1] = entry end
  end
  return list
end

describe('RULES log', function()
  local broker
  before_each(function() broker = start() end)
  after_each(function() broker:destroy() end)

  it('begins with the generation of the start', function()
    local c = broker:connect()
    local log = c:document 'RULES log'
    assert.equal(1, #log)
    assert.equal('start', log[1].origin)
    assert.equal('accepted', log[1].result)
    assert.equal(c:document('RULES status').hash, log[1].hash)
    assert.equal(1, log[1].generation)
  end)

  it('tells who asked for it', function()
    local c = broker:connect()
    local log = c:document 'RULES log'
    assert.is_nil(log[1].by)
    c:close()
    c = broker:connect()
    c:document 'HELLO name=deploy'
    reload(broker, c, fixed(1))
    log = c:document 'RULES log'
    assert.is_truthy(asked(log)[1].by:find "^connection %d+ 'deploy' from 127%.0%.0%.1:%d+$", asked(log)[1].by)
    broker:expect_log "from reload, asked for by connection %d+ 'deploy' from 127"
    broker:write_rule('sharding/mine.lua', 'return {')
    c:send 'RULES reload\r\n'
    c:expect '^ERR rule'
    assert.is_truthy(asked(c:document 'RULES log')[1].by:find 'deploy')
    broker:write_rule('sharding/mine.lua', fixed(1))
    broker:signal 'HUP'
    assert.is_truthy(wait.poll(function() return asked(c:document 'RULES log')[1].by == 'SIGHUP' end))
    reload(broker, c, fixed(2))
    local d = broker:connect()
    d:send 'RULES rollback\r\n'
    d:expect_payload(d:expect '^DATA (%d+)$')
    assert.is_truthy(asked(c:document 'RULES log')[1].by:find '^connection %d+ from 127')
    broker:write_rule('sharding/mine.lua', fixed(5))
    assert.is_truthy(wait.poll(function() return c:document('RULES log')[1].by == 'files changed' end))
  end)

  it('is a narrow table on the command line', function()
    local c = broker:connect()
    for i = 1, 60 do broker:write_rule(('lib/m%d.lua'):format(i), 'return 1') end
    local text = {}
    for i = 1, 60 do text[i] = ('require "lib.m%d"'):format(i) end
    reload(broker, c, table.concat(text, '\n') .. '\n' .. fixed(1))
    local output, status = broker:cli('rules', 'log')
    assert.equal(0, status, output)
    assert.is_truthy(output:find '60 files', output)
    assert.is_truthy(output:find('sharding/mine.lua', 1, true))
    for line in output:gmatch '[^\n]+' do assert.is_true(#line < 250, line) end
  end)

  it('tells which files changed, and why one was refused', function()
    local c = broker:connect()
    broker:write_rule('sharding/other.lua', fixed(2))
    reload(broker, c, fixed(1))
    broker:write_rule('sharding/mine.lua', 'return {')
    c:send 'RULES reload\r\n'
    c:expect '^ERR rule sharding/mine.lua:1:'
    broker:remove_rule 'sharding/other.lua'
    reload(broker, c, fixed(3))
    local added, changed, removed, refused = false, false, false, nil
    for _, entry in ipairs(c:document 'RULES log') do
      if entry.result == 'refused' then refused = entry end
      for _, name in ipairs(entry.added) do added = added or name == 'sharding/other.lua' end
      for _, name in ipairs(entry.changed) do changed = changed or name == 'sharding/mine.lua' end
      for _, name in ipairs(entry.removed) do removed = removed or name == 'sharding/other.lua' end
    end
    assert.is_true(added and changed and removed)
    assert.is_truthy(refused.error:find('^sharding/mine.lua:1:'))
    assert.is_nil(refused.hash)
    assert.same({ 'sharding/mine.lua' }, refused.changed)
  end)

  it('is printed by the command line', function()
    local output, status = broker:cli('rules', 'log')
    assert.equal(0, status, output)
    assert.is_truthy(output:find 'NUMBER' and output:find 'accepted', output)
  end)

  it('and the kept files survive a restart', function()
    local c = broker:connect()
    reload(broker, c, fixed(1))
    local first = c:document 'RULES log'
    broker:restart()
    c = broker:connect()
    local second = c:document 'RULES log'
    assert.equal(#first + 1, #second)
    assert.equal('start', second[1].origin)
    assert.same({}, second[1].changed)
    assert.equal(first[1].hash, second[1].hash)
    assert.equal(first[1].number, second[2].number)
    c:document('RULES rollback ' .. first[#first].hash)
  end)

  it('is bounded, as are the kept files', function()
    local c = broker:connect()
    for n = 1, 102 do reload(broker, c, fixed(n)) end
    assert.equal(100, #c:document 'RULES log')
    assert.is_truthy(wait.poll(function() return tonumber(broker:redis_cli('HLEN', '{tide}:rules:log')) == 100 end))
    local count = 0
    for _ in broker:redis_cli('KEYS', '{tide}:rules:gen:*'):gmatch 'gen:%x+' do count = count + 1 end
    assert.equal(10, count)
  end)
end)

describe('RULES rollback', function()
  local broker
  before_each(function() broker = start() end)
  after_each(function() broker:destroy() end)

  it('activates the previous generation, and the one before it', function()
    local c = broker:connect()
    c:ok 'DECLARE queue q shards=4 sharding=mine'
    reload(broker, c, fixed(1))
    reload(broker, c, fixed(2))
    assert.equal(2, shard_of(c, 'q'))
    local status = c:document 'RULES rollback'
    assert.equal('rollback', status.origin)
    assert.equal(1, shard_of(c, 'q'))
    c:document 'RULES rollback'
    assert.equal(0, shard_of(c, 'q'))
    c:send 'RULES rollback\r\n'
    c:expect '^ERR not%-found there is no generation before'
    local log = asked(c:document 'RULES log')
    assert.equal('rollback', log[1].origin)
    assert.same({ 'sharding/mine.lua' }, log[1].changed)
  end)

  it('takes the generation that a hash names', function()
    local c = broker:connect()
    c:ok 'DECLARE queue q shards=4 sharding=mine'
    local first = c:document('RULES status').hash
    reload(broker, c, fixed(1))
    reload(broker, c, fixed(2))
    assert.equal(first, c:document('RULES rollback ' .. first:sub(1, 8)).hash)
    assert.equal(0, shard_of(c, 'q'))
    c:send('RULES rollback ' .. first .. '\r\n')
    c:expect '^ERR exists generation %x+ is active already'
    c:send 'RULES rollback 0123456789abcdef\r\n'
    c:expect '^ERR not%-found no kept generation begins with 0123456789abcdef'
    c:send('RULES rollback ' .. first:sub(1, 3) .. '\r\n')
    c:expect('^ERR not%-found a hash needs at least 4 digits, not ' .. first:sub(1, 3) .. '; kept')
  end)

  it('leaves the directory as it is, and its next change supersedes it', function()
    local c = broker:connect()
    c:ok 'DECLARE queue q shards=4 sharding=mine'
    reload(broker, c, fixed(1))
    c:document 'RULES rollback'
    broker:write_rule('sharding/mine.lua', fixed(3))
    assert.is_truthy(wait.poll(function() return shard_of(c, 'q') == 3 end))
    assert.equal('files', c:document('RULES status').origin)
  end)

  it('is refused while a queue uses what the generation has not', function()
    local c = broker:connect()
    broker:write_rule('sharding/late.lua', fixed(1))
    reload(broker, c, fixed(1))
    c:ok 'DECLARE queue q shards=4 sharding=late'
    local first = c:document 'RULES log'
    c:send('RULES rollback ' .. first[#first].hash .. '\r\n')
    c:expect "^ERR rule sharding/late.lua: is missing, but queue 'q' uses it"
    assert.equal('refused', c:document('RULES log')[1].result)
  end)

  it('is a verb of the command line', function()
    local c = broker:connect()
    reload(broker, c, fixed(1))
    local output, status = broker:cli('rules', 'rollback')
    assert.equal(0, status, output)
    assert.matches('^generation %d+ is active, hash %x+; the rules directory stays as it is', output)
    output, status = broker:cli('rules', 'rollback')
    assert.equal(1, status, output)
  end)
end)

describe('a start with broken rules', function()
  local broker
  after_each(function() if broker then broker:destroy() end end)

  it('serves with the last good generation, and says so', function()
    broker = start { rules = { ['sharding/mine.lua'] = 'local lib = require "lib"\n' ..
      'return { pick = function() return lib.n end }\n', ['lib.lua'] = 'return { n = 2 }\n' } }
    local c = broker:connect()
    c:ok 'DECLARE queue q shards=4 sharding=mine'
    local good = c:document('RULES status').hash
    broker:expect_clean_stop()
    broker:write_rule('sharding/mine.lua', 'return {\n')
    broker:remove_rule 'lib.lua'
    broker:restart()
    broker:expect_log 'is broken: sharding/mine.lua:'
    broker:expect_log('last good generation, ' .. good)
    c = broker:connect()
    assert.equal(2, shard_of(c, 'q'))
    local status = c:document 'RULES status'
    assert.equal('last good', status.origin)
    assert.equal(good, status.hash)
    assert.is_truthy(status.refusal.error:find '^sharding/mine.lua:')
    local log = c:document 'RULES log'
    assert.equal('last good', log[1].origin)
    assert.equal('refused', log[2].result)
    assert.same({ 'sharding/mine.lua' }, log[2].changed)
    -- The directory is put right while it serves.
    broker:write_rule('sharding/mine.lua', fixed(3))
    assert.is_truthy(wait.poll(function() return shard_of(c, 'q') == 3 end))
  end)

  it('says so at each start', function()
    broker = start()
    broker:expect_clean_stop()
    broker:write_rule('sharding/mine.lua', 'return {')
    broker:restart()
    broker:restart()
    local _, count = broker:log():gsub('is broken', '')
    assert.equal(2, count)
  end)

  it('fails without a last good one', function()
    local _, log, status = start { rules = { ['sharding/mine.lua'] = 'return {' }, may_fail = true }
    assert.equal(1, status)
    assert.is_truthy(log:find('tidemq: sharding/mine.lua:1:', 1, true), log)
  end)

  it('fails without a store to have one in', function()
    local _, log, status = start {
      rules = { ['sharding/mine.lua'] = 'return {' }, may_fail = true, args = { '--store', 'none' },
    }
    assert.equal(1, status)
    assert.is_truthy(log:find('tidemq: sharding/mine.lua:1:', 1, true), log)
  end)
end)
