-- Rules that end or stop the process that loads them do so in another process.
local Broker = require 'support.broker'
local LuaBug = require 'support.lua_bug'
local shell = require 'support.shell'
local wait = require 'support.wait'

local FILTER = 'return { publish = function() end }\n'
local CRASH = ': crashes the process that loads it: a trial in a process of its own ended with signal 11'

local function pick(n)
  return ('return { pick = function() return %d end }\n'):format(n)
end

-- AddressSanitizer wants to be loaded first.
if Broker.is_sanitized() then
  describe('rules that crash the process', function()
    it('are not tried', function() pending 'no other Lua under AddressSanitizer' end)
  end)
  return
end

describe('rules that crash the process', function()
  local bug, broker, c

  setup(function()
    bug = LuaBug.new()
    broker = Broker.start { env = bug.env, rules = { ['sharding/mine.lua'] = pick(1) }, args = { '--fsync', 'no' } }
  end)
  teardown(function()
    broker:expect_clean_stop()
    broker:destroy()
    bug:destroy()
  end)
  before_each(function()
    if not broker:is_running() then broker:run() end
    c = broker:connect()
  end)
  after_each(function()
    for _, path in ipairs { 'filter/crash.lua', 'filter/user.lua', 'filter/late_crash.lua', 'lib/crash.lua' } do
      os.remove(broker.rules .. '/' .. path)
    end
    if broker:is_running() then broker:connect():document 'RULES reload' end
  end)

  local function refused(line, pattern)
    c:send(line .. '\r\n')
    local answer = c:expect '^ERR .*'
    assert.is_truthy(answer:find(pattern), answer)
  end

  it('are refused by a reload, which names the file', function()
    broker:write_rule('filter/crash.lua', FILTER)
    refused('RULES reload', '^ERR rule filter/crash.lua' .. CRASH)
    c:ok 'PING'
    local log = c:document 'RULES log'
    assert.equal('refused', log[1].result)
    assert.same({ 'filter/crash.lua' }, log[1].added)
    assert.is_truthy(c:document('RULES status').refusal.error:find(CRASH, 1, true))
  end)

  it('are refused when the directory changes, also for a module', function()
    broker:write_rule('lib/crash.lua', 'return {}\n')
    broker:write_rule('filter/user.lua', 'require "lib.crash"\n' .. FILTER)
    broker:expect_log('change refused, the active rules stay: lib/crash.lua' .. CRASH:gsub('%p', '%%%0'))
    c:ok 'PING'
  end)

  it('are refused as candidates', function()
    local dir = broker:copy_rules('next', { ['retry/crash.lua'] = 'return { decide = function() return 0 end }\n' })
    refused('RULES shadow ' .. dir, '^ERR rule retry/crash.lua' .. CRASH)
    refused('RULES replay ' .. dir, '^ERR rule retry/crash.lua' .. CRASH)
  end)

  it('do not stop it when they hang', function()
    broker:write_rule('filter/hang.lua', FILTER)
    c:send 'RULES reload\r\n'
    local d = broker:connect()
    for _ = 1, 10 do d:ok 'PING' end
    c:expect '^ERR rule filter/hang%.lua: does not finish loading: a trial in a process of its own was ended after 5 s'
    broker:remove_rule 'filter/hang.lua'
  end)

  it('are not gone back to', function()
    broker:expect_clean_stop()
    broker.options.env = nil
    broker:write_rule('filter/crash.lua', FILTER)
    broker:restart()
    c = broker:connect()
    local hash = c:document('RULES status').hash
    broker:remove_rule 'filter/crash.lua'
    c:document 'RULES reload'
    broker.options.env = bug.env
    broker:restart()
    c = broker:connect()
    refused('RULES rollback ' .. hash, '^ERR rule filter/crash.lua' .. CRASH)
    assert.equal('rollback', c:document('RULES log')[1].origin)
  end)

  it('leave a start with the last good ones', function()
    broker:expect_clean_stop()
    broker:write_rule('filter/crash.lua', FILTER)
    broker:restart()
    broker:expect_log('is broken: filter/crash.lua' .. CRASH:gsub('%p', '%%%0'))
    assert.equal('last good', broker:connect():document('RULES status').origin)
  end)

  it('are not loaded again by the next broker, when the trial did not find it', function()
    c:ok 'DECLARE queue q shards=8 sharding=mine'
    broker:write_rule('filter/late_crash.lua', FILTER)
    assert.equal(128 + 11, wait.poll(function() return broker:exit_status() end))
    for _ = 1, 2 do
      broker:run()
      c = broker:connect()
      local status = c:document 'RULES status'
      assert.equal('last good', status.origin)
      assert.matches('^the broker ended while it loaded these rules %(%x+%); they are loaded again when they change, '
        .. 'or by RULES reload$', status.refusal.error)
      assert.equal(1, c:document('EXPLAIN - q').queues[1].shard)
      broker:kill9()
    end
    broker:expect_log "the rules directory '[^']*' is broken: the broker ended while it loaded these rules"
    broker:remove_rule 'filter/late_crash.lua'
    broker:write_rule('sharding/mine.lua', pick(2))
    broker:run()
    c = broker:connect()
    assert.equal('start', c:document('RULES status').origin)
    assert.equal(2, c:document('EXPLAIN - q').queues[1].shard)
  end)

  it('are tried once, and not again while they stay the same', function()
    c:document 'RULES reload'
    local before = bug:trials()
    for _ = 1, 3 do c:document 'RULES reload' end
    shell.run('touch ' .. shell.quote(broker.rules .. '/sharding/mine.lua'))
    c:document 'RULES reload'
    assert.equal(before, bug:trials())
    broker:write_rule('sharding/mine.lua', pick(3))
    c:document 'RULES reload'
    assert.is_true(bug:trials() > before)
  end)
end)

describe('a first start with rules that crash', function()
  it('fails with a sentence', function()
    local bug = LuaBug.new()
    local _, log, status = Broker.start {
      env = bug.env, may_fail = true, rules = { ['filter/crash.lua'] = FILTER }, args = { '--store', 'none' },
    }
    bug:destroy()
    assert.equal(1, status)
    assert.is_truthy(log:find('tidemq: filter/crash.lua' .. CRASH, 1, true), log)
  end)
end)
