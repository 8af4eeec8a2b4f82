-- --rules-gate test: no rules become active before their specs pass.
local Broker = require 'support.broker'
local shell = require 'support.shell'
local wait = require 'support.wait'

local function pick(n)
  return ('return { pick = function() return %d end }\n'):format(n)
end

--- Specs that allow no shard above the limit.
local function specs(limit)
  return ([[
local tidemq = require "tidemq"
describe("mine", function()
  it("stays within its limit", function()
    local engine = assert(tidemq.open())
    local mine = assert(engine:strategy("sharding", "mine", {}))
    assert.is_true(mine:pick({}, 8) <= %d)
    engine:close()
  end)
end)
]]):format(limit)
end

local function shard(c)
  return c:document('EXPLAIN - q').queues[1].shard
end

local broker

local function start(files, options)
  options = options or {}
  local log, status
  broker, log, status = Broker.start {
    rules = files, may_fail = options.may_fail,
    args = { '--fsync', 'no', '--rules-gate', 'test', table.unpack(options.args or {}) },
  }
  return broker, log, status
end

-- With these a reload is answered by the end of the broker alone.
local slow_spec = 'it("waits", function() os.execute("exec sleep 30") end)\n'
local SHORT_DRAIN = { args = { '--drain-timeout', '100ms' } }

describe('the gate', function()
  after_each(function() if broker then broker:destroy() end end)

  it('refuses a change whose specs fail, and lets through one whose specs pass', function()
    start { ['sharding/mine.lua'] = pick(0), ['sharding/mine_spec.lua'] = specs(3) }
    local c = broker:connect()
    c:ok 'DECLARE queue q shards=8 sharding=mine'
    broker:write_rule('sharding/mine.lua', pick(5))
    c:send 'RULES reload\r\n'
    c:expect '^ERR rule the specs fail: Failure .*mine_spec.lua'
    assert.equal(0, shard(c))
    local status = c:document 'RULES status'
    assert.is_truthy(status.refusal.error:find 'the specs fail')
    local log = c:document 'RULES log'
    assert.equal('refused', log[1].result)
    assert.same({ 'sharding/mine.lua' }, log[1].changed)
    broker:write_rule('sharding/mine.lua', pick(2))
    c:document 'RULES reload'
    assert.equal(2, shard(c))
  end)

  it('tells the test, what it expected and what came', function()
    start { ['sharding/mine.lua'] = pick(0), ['sharding/mine_spec.lua'] = specs(3) }
    local c = broker:connect()
    c:ok 'DECLARE queue q shards=8 sharding=mine'
    broker:write_rule('sharding/mine.lua', pick(5))
    c:send 'RULES reload\r\n'
    local text = c:expect '^ERR rule the specs fail: (.+)$'
    assert.is_truthy(text:find 'mine stays within its limit', text)
    assert.is_truthy(text:find 'mine_spec%.lua:6: mine stays within its limit; Expected objects to be the same', text)
    assert.is_truthy(text:find 'Passed in: %(boolean%) false; Expected: %(boolean%) true$', text)
  end)

  for what, text in pairs {
    ['ends the process'] = 'os.exit(0)\n',
    ['ends the process in a test'] = 'it("stops", function() os.exit(0, true) end)\n',
    ['ends the process, and goes on'] = 'describe("x", function() os.exit(true) end)\n',
  } do
    it('stays shut when a spec ' .. what, function()
      start { ['sharding/mine.lua'] = pick(0), ['sharding/mine_spec.lua'] = specs(3) }
      local c = broker:connect()
      c:ok 'DECLARE queue q shards=8 sharding=mine'
      broker:write_rule('sharding/a_spec.lua', text)
      broker:write_rule('sharding/mine.lua', pick(2))
      c:send 'RULES reload\r\n'
      assert.is_truthy(c:expect('^ERR rule the specs fail: (.+)$'):find 'specs do not end the process')
      assert.equal(0, shard(c))
    end)
  end

  it('is asked by changes of the directory and by SIGHUP', function()
    start { ['sharding/mine.lua'] = pick(0), ['sharding/mine_spec.lua'] = specs(3) }
    local c = broker:connect()
    c:ok 'DECLARE queue q shards=8 sharding=mine'
    broker:write_rule('sharding/mine.lua', pick(5))
    broker:expect_log 'change refused, the active rules stay: the specs fail'
    broker:signal 'HUP'
    assert.is_truthy(wait.poll(function()
      for _, entry in ipairs(c:document 'RULES log') do
        if entry.origin == 'reload' and entry.result == 'refused' then return true end
      end
    end))
    broker:write_rule('sharding/mine.lua', pick(3))
    assert.is_truthy(wait.poll(function() return shard(c) == 3 end))
  end)

  it('does not hold up the broker', function()
    start { ['sharding/mine.lua'] = pick(0), ['sharding/mine_spec.lua'] = specs(3) }
    local c, d = broker:connect(), broker:connect()
    broker:write_rule('sharding/slow_spec.lua', ([[
it("waits for the test", function() os.execute "until [ -e '%s/go' ]; do sleep 0.01; done" end)
]]):format(broker.dir))
    c:send 'RULES reload\r\n'
    for _ = 1, 10 do d:ok 'PING' end
    shell.write_file(broker.dir .. '/go', '')
    c:expect_json()
  end)

  it('stands at the start too', function()
    start { ['sharding/mine.lua'] = pick(0), ['sharding/mine_spec.lua'] = specs(3) }
    local c = broker:connect()
    c:ok 'DECLARE queue q shards=8 sharding=mine'
    broker:expect_clean_stop()
    broker:write_rule('sharding/mine.lua', pick(5))
    broker:restart()
    broker:expect_log 'is broken: the specs fail'
    c = broker:connect()
    assert.equal(0, shard(c))
    assert.equal('last good', c:document('RULES status').origin)
  end)

  it('fails the first start', function()
    local _, log, status = start({ ['sharding/mine.lua'] = pick(5), ['sharding/mine_spec.lua'] = specs(3) },
      { may_fail = true, args = { '--store', 'none' } })
    assert.equal(1, status)
    assert.is_truthy(log:find('tidemq: the specs fail:', 1, true), log)
  end)

  it('is open where there are no specs', function()
    start { ['sharding/mine.lua'] = pick(0) }
    local c = broker:connect()
    c:ok 'DECLARE queue q shards=8 sharding=mine'
    broker:write_rule('sharding/mine.lua', pick(5))
    c:document 'RULES reload'
    assert.equal(5, shard(c))
  end)

  it('is closed when the broker stops meanwhile', function()
    start({ ['sharding/mine.lua'] = pick(0), ['sharding/mine_spec.lua'] = specs(3) }, SHORT_DRAIN)
    local c = broker:connect()
    broker:write_rule('sharding/slow_spec.lua', slow_spec)
    c:send 'RULES reload\r\n'
    broker:connect():ok 'PING'
    broker:expect_clean_stop()
  end)

  it('can be asked for in the configuration', function()
    broker = Broker.start {
      config = 'return { ["rules.gate"] = "test", ["replay-payloads"] = true }\n',
      rules = { ['sharding/mine.lua'] = pick(0), ['sharding/mine_spec.lua'] = specs(3) },
      args = { '--fsync', 'no' },
    }
    local c = broker:connect()
    broker:write_rule('sharding/mine.lua', pick(5))
    c:send 'RULES reload\r\n'
    c:expect '^ERR rule the specs fail'
  end)
end)

describe('the gate before a rollback', function()
  after_each(function() if broker then broker:destroy() end end)

  local c

  local function begin(files, options)
    start(files, options)
    c = broker:connect()
    c:ok 'DECLARE queue q shards=8 sharding=mine'
  end

  local function reload(text)
    broker:write_rule('sharding/mine.lua', text)
    c:document 'RULES reload'
  end

  it('runs the specs of now on files that have never passed', function()
    begin { ['sharding/mine.lua'] = pick(5) }
    reload(pick(1))
    reload(pick(2))
    broker:write_rule('sharding/mine_spec.lua', specs(3))
    assert.equal('rollback', c:document('RULES rollback').origin)
    assert.equal(1, shard(c))
    c:send 'RULES rollback\r\n'
    c:expect '^ERR rule the specs fail: Failure at sharding/mine_spec.lua:%d+'
    assert.equal(1, shard(c))
    local entry = c:document('RULES log')[1]
    assert.equal('rollback', entry.origin)
    assert.equal('refused', entry.result)
    assert.same({ 'sharding/mine.lua' }, entry.changed)
  end)

  it('knows what has passed, also after a restart', function()
    begin { ['sharding/mine.lua'] = pick(0), ['sharding/mine_spec.lua'] = specs(3) }
    reload(pick(1))
    reload(pick(2))
    broker:write_rule('sharding/mine_spec.lua', specs(-1))
    c:document 'RULES rollback'
    assert.equal(1, shard(c))
    broker:write_rule('sharding/mine_spec.lua', specs(2))
    broker:restart()
    c = broker:connect()
    assert.equal(2, shard(c))
    broker:write_rule('sharding/mine_spec.lua', specs(-1))
    c:document 'RULES rollback'
    c:document 'RULES rollback'
    assert.equal(0, shard(c))
  end)

  it('gives the specs what they need, and the scripts the modules of then', function()
    begin {
      ['sharding/mine.lua'] = 'local n = require "lib.n"\nreturn { pick = function() return n.n end }\n',
      ['lib/n.lua'] = 'return { n = 1 }\n',
      ['support/limit.lua'] = 'return { limit = 1 }\n',
      ['sharding/other.lua'] = pick(0),
    }
    broker:write_rule('lib/n.lua', 'return { n = 2 }\n')
    broker:remove_rule 'sharding/other.lua'
    broker:write_rule('sharding/late.lua', pick(0))
    c:document 'RULES reload'
    broker:write_rule('mine_spec.lua', [[
local tidemq = require "tidemq"
it("is as it was", function()
  local engine = assert(tidemq.open())
  local limit = assert(engine:strategy("sharding", "mine", {})):pick({}, 8)
  assert.equal(1, limit)
  assert(engine:strategy("sharding", "other", {}))
  assert.is_nil((engine:strategy("sharding", "late", {})))
end)
]])
    c:document 'RULES rollback'
    assert.equal(1, shard(c))
  end)

  it('does not hold up the broker, and is over when that stops', function()
    begin({ ['sharding/mine.lua'] = pick(0) }, SHORT_DRAIN)
    reload(pick(1))
    broker:write_rule('sharding/slow_spec.lua', slow_spec)
    c:send 'RULES rollback\r\n'
    local d = broker:connect()
    for _ = 1, 10 do d:ok 'PING' end
    assert.equal(1, shard(d))
    broker:expect_clean_stop()
  end)

  it('goes on without the connection that asked', function()
    begin { ['sharding/mine.lua'] = pick(0) }
    reload(pick(1))
    broker:write_rule('sharding/mine_spec.lua', specs(3))
    local d = broker:connect()
    d:send 'RULES rollback\r\n'
    d:close()
    assert.is_truthy(wait.poll(function() return shard(c) == 0 end))
  end)
end)

describe('specs that hang', function()
  local c
  after_each(function() if broker then broker:destroy() end end)

  --- @param prepare? fun() before the first change
  local function begin(timeout, prepare)
    start({ ['sharding/mine.lua'] = pick(0), ['sharding/mine_spec.lua'] = specs(3) },
      { args = { '--rules-gate-timeout', timeout } })
    c = broker:connect()
    c:ok 'DECLARE queue q shards=8 sharding=mine'
    if prepare then prepare() end
    broker:write_rule('sharding/mine.lua', pick(1))
    c:document 'RULES reload'
  end

  --- One whose processes wait, as long as they are let.
  --- @param condition? string of the shell, in the broker's directory
  local function hang(condition)
    broker:write_rule('sharding/hang_spec.lua', ([[
it("hangs", function() os.execute "cd %s; if %s; then touch begun; sleep 600 & sleep 600; fi" end)
]]):format(broker.dir, condition or 'true'))
  end
  local function wait_until_begun()
    assert.is_truthy(wait.poll(function() return shell.read_file(broker.dir .. '/begun') end))
  end
  local function sleepers()
    local count = 0
    for _, pid in ipairs(broker:processes()) do
      local line = shell.read_file('/proc/' .. pid .. '/cmdline') or ''
      if line:find('sleep', 1, true) then count = count + 1 end
    end
    return count
  end
  local function expect_no_sleepers()
    assert.is_truthy(wait.poll(function() return sleepers() == 0 end, 20))
  end

  it('are ended after their time, with what they started', function()
    begin '2s'
    hang()
    broker:write_rule('sharding/mine.lua', pick(2))
    c:send 'RULES reload\r\n'
    c:expect '^ERR rule the specs did not finish within 2 s %(%-%-rules%-gate%-timeout%)'
    expect_no_sleepers()
    assert.equal(1, shard(c))
  end)

  it('do not wait for what a spec has left behind', function()
    begin '10m'
    broker:write_rule('sharding/mine_spec.lua', ([[
it("leaves a process", function() os.execute "cd %s; sleep 600 &" end)
]]):format(broker.dir))
    broker:write_rule('sharding/mine.lua', pick(2))
    c:document 'RULES reload'
    assert.equal(2, shard(c))
    expect_no_sleepers()
  end)

  it('are not in the way of a rollback, which ends them', function()
    -- The files do not change before the reload that hangs: such a change may be noticed after the
    -- rollback, and would then be loaded.
    begin('10m', function() hang '[ -e go ]' end)
    shell.write_file(broker.dir .. '/go', '')
    c:send 'RULES reload\r\n'
    wait_until_begun()
    local d = broker:connect()
    -- The files are being read once more after the change: that is soon over.
    assert(wait.poll(function()
      local line = d:send('RULES rollback\r\n'):expect '^.*$'
      local len = line:match '^DATA (%d+)$'
      return len and d:expect_payload(len):find('"origin":"rollback"', 1, true)
    end))
    assert.equal(0, shard(d))
    c:expect '^ERR busy other rules became active meanwhile, by rollback$'
    expect_no_sleepers()
    assert.equal(0, shard(d))
  end)

  it('are ended by the next change, which is tested for both', function()
    begin '10m'
    hang()
    broker:write_rule('sharding/mine.lua', pick(2))
    c:send 'RULES reload\r\n'
    wait_until_begun()
    broker:remove_rule 'sharding/hang_spec.lua'
    broker:write_rule('sharding/mine.lua', pick(3))
    local d = broker:connect()
    d:document 'RULES reload'
    c:expect_json()
    assert.equal(3, shard(d))
    expect_no_sleepers()
  end)
end)

describe('the gate before a promotion', function()
  local c, dir

  before_each(function()
    start { ['sharding/mine.lua'] = pick(0), ['sharding/mine_spec.lua'] = specs(3) }
    c = broker:connect()
    c:ok 'DECLARE queue q shards=8 sharding=mine'
    dir = broker:copy_rules('next', {})
  end)
  after_each(function() broker:destroy() end)

  local function write(path, text) shell.write_file(dir .. '/' .. path, text) end

  it('refuses what fails its specs, and leaves it in the shadow', function()
    write('sharding/mine.lua', pick(5))
    c:document('RULES shadow ' .. dir)
    c:send 'RULES shadow promote\r\n'
    c:expect '^ERR rule the specs fail: Failure at sharding/mine_spec.lua'
    assert.equal(0, shard(c))
    assert.is_true(c:document('RULES shadow status').active)
    assert.equal('promote', c:document('RULES log')[1].origin)
  end)

  it('tests what is in the shadow, by the specs beside it', function()
    write('sharding/mine.lua', pick(5))
    write('sharding/mine_spec.lua', specs(6))
    c:document('RULES shadow ' .. dir)
    write('sharding/mine.lua', pick(7))
    assert.equal('promote', c:document('RULES shadow promote').origin)
    assert.equal(5, shard(c))
  end)

  it('takes the specs of the rules directory where there are none', function()
    write('sharding/mine.lua', pick(5))
    os.remove(dir .. '/sharding/mine_spec.lua')
    c:document('RULES shadow ' .. dir)
    c:send 'RULES shadow promote\r\n'
    c:expect '^ERR rule the specs fail'
    c:ok 'RULES shadow drop'
    write('sharding/mine.lua', pick(3))
    c:document('RULES shadow ' .. dir)
    c:document 'RULES shadow promote'
    assert.equal(3, shard(c))
  end)
end)
