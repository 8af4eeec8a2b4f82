-- A rules directory has only what its owner wrote: what it lacks is shipped.
local Broker = require 'support.broker'
local shell = require 'support.shell'
local wait = require 'support.wait'

local NEVER <const> = 'return { decide = function() return tide.BURY end }\n'

describe('an empty rules directory', function()
  local broker, c

  local function start(options)
    broker = Broker.start(options)
    c = broker:connect()
  end

  after_each(function() broker:destroy() end)

  local function script(name)
    local list = c:document('RULES show ' .. name)
    assert.equal(1, #list)
    return list[1]
  end

  local function publish(to, payload)
    c:send(('PUB %s %d\r\n%s\r\n'):format(to, #payload, payload))
    c:expect '^OK %x+ 1$'
  end

  it('has the shipped exchange types and strategies', function()
    start { rules = {}, args = { '--store', 'none' } }
    c:ok 'DECLARE exchange logs topic'
    c:ok 'DECLARE exchange keys direct'
    c:ok 'DECLARE queue jobs priority=strict retry=fixed retry.delay=1d sharding=hash shards=2'
    c:ok 'BIND jobs logs eu.#'
    c:ok 'BIND jobs keys k'
    publish('logs eu.paris', 'low')
    publish('keys k', 'by key')
    local x = c:document 'EXPLAIN logs eu.paris'
    assert.same({ 'shipped/routing/topic.lua', 'shipped/sharding/hash.lua', 'shipped/priority/strict.lua',
      'shipped/retry/fixed.lua' },
      { x.script, x.queues[1].sharding, x.queues[1].priority, x.queues[1].retry })
    c:ok 'DECLARE queue ranked priority=strict retry=fixed retry.delay=1d'
    publish('- ranked pri=1', 'low')
    publish('- ranked pri=9', 'high')
    c:send 'GET ranked\r\n'
    c:expect '^OK 1$'
    local tag = c:expect('^MSG %- (%d+) 1 %- ranked .*pri=9')
    c:expect '^high$'
    c:send(('NACK %s\r\n'):format(tag))
    c:expect '^OK 1$'
    assert.same({ 1, 1 }, { c:stats 'ranked'.delayed, c:stats 'ranked'.ready })
  end)

  it('says of the shipped scripts that they are', function()
    start { rules = {} }
    local fifo = script 'fifo'
    assert.same({ 'shipped/priority/fifo.lua', 'priority', 'fifo' }, { fifo.file, fifo.kind, fifo.name })
    for _, name in ipairs { 'priority/fifo', 'priority/fifo.lua', 'shipped/priority/fifo',
      'shipped/priority/fifo.lua' } do
      assert.equal(fifo.hash, script(name).hash)
    end
    assert.equal(shell.read_file 'rules/priority/fifo.lua', c:document('RULES show fifo source')[1].source)
    assert.equal('burst', script('rate_limit').options[1].name)
    assert.matches('shipped/routing/topic%.lua +0 ', (broker:cli('list', 'rules')))
    c:ok 'DECLARE queue jobs'
    local status = broker:cli('rules', 'status')
    assert.matches('\n  FILE [^\n]*\n  shipped/sharding/hash%.lua +1 ', status)
    assert.is_nil(status:find('topic.lua', 1, true))
    assert.matches('\nshipped_unused +%d+\n', status)
  end)

  it('has none that is active by itself', function()
    start { rules = {}, args = { '--store', 'none' } }
    local status = c:document 'RULES status'
    assert.is_true(#status.scripts > 30)
    for _, s in ipairs(status.scripts) do
      assert.matches('^shipped/', s.file)
      assert.is_not_true(s.active, s.file)
    end
    assert.same({}, status.schedules)
    assert.is_nil(broker:log():find('not active', 1, true))
    assert.same({ authenticate = false, authorize = false }, status.auth)
    local empty = status.hash
    -- Their text is none of the directory's.
    local files = c:document 'EXPLAIN - jobs'
    assert.same({}, files.filters)
    broker:write_rule('filter/10-mine.lua', 'return { match = {}, publish = function() end }\n')
    assert.not_equal(empty, c:document('RULES reload').hash)
  end)

  it('uses shipped models under their own names, too', function()
    start { rules = {
      ['filter/rate_limit.lua'] = 'return tide.use("rate_limit", { match = {}, options = { rate = "1/h" } })',
      ['schedule/heartbeat.lua'] = 'return tide.use("heartbeat", { every = "1d" })',
      ['connect/limits.lua'] = 'return tide.use("limits", { match = {} })',
      ['auth/10-hours.lua'] = 'return tide.use("hours", { active = false })',
    }, args = { '--store', 'none' } }
    local mine = script 'rate_limit'
    assert.same({ 'filter/rate_limit.lua', 'shipped/filter/rate_limit.lua', true },
      { mine.file, mine.model, mine.active })
    assert.equal('shipped/schedule/heartbeat.lua', script('heartbeat').model)
    assert.equal('shipped/auth/hours.lua', script('10-hours').model)
    assert.equal('shipped/connect/limits.lua', script('limits').model)
  end)

  it('gives way to a file of the same name, and comes back when that goes', function()
    start { rules = {}, args = { '--store', 'none' } }
    c:ok 'DECLARE queue jobs retry=fixed retry.delay=1d'
    local function file() return c:document('EXPLAIN - jobs').queues[1].retry end
    assert.equal('shipped/retry/fixed.lua', file())
    broker:write_rule('retry/fixed.lua',
      'return { options = { delay = {} }, decide = function() return tide.BURY end }\n')
    broker:expect_log 'generation 2 is active, from files'
    assert.equal('retry/fixed.lua', file())
    publish('- jobs', 'x')
    c:send 'GET jobs\r\n'
    c:expect '^OK 1$'
    local tag = c:expect '^MSG %- (%d+) '
    c:expect '^x$'
    c:send(('NACK %s\r\n'):format(tag))
    c:expect '^OK 1$'
    assert.equal(1, c:stats 'jobs'.buried)
    -- A broken one is an error: the shipped one does not hide it.
    broker:write_rule('retry/fixed.lua', 'return {')
    c:send 'RULES reload\r\n'
    c:expect '^ERR rule retry/fixed%.lua:1: '
    assert.equal('retry/fixed.lua', file())
    broker:remove_rule 'retry/fixed.lua'
    c:document 'RULES reload'
    assert.equal('shipped/retry/fixed.lua', file())
    -- What the shipped one does not know is a mistake in the options, as ever.
    c:send 'DECLARE queue other retry=fixed retry.pause=1s\r\n'
    c:expect "^ERR .*has no option 'pause'"
  end)

  it('is one to start, restart and roll back from', function()
    start { rules = {} }
    c:ok 'DECLARE exchange logs topic'
    c:ok 'DECLARE queue jobs priority=fair'
    c:ok 'BIND jobs logs #'
    broker:write_rule('filter/10-no.lua', 'return { match = {}, publish = function() return false, "no" end }\n')
    c:document 'RULES reload'
    c:send 'PUB logs k 1\r\nx\r\n'
    c:expect '^ERR rejected no'
    c:document 'RULES rollback'
    publish('logs k', 'x')
    broker:remove_rule 'filter/10-no.lua'
    broker:restart()
    c = broker:connect()
    publish('logs k', 'y')
    assert.equal('shipped/priority/fair.lua', c:document('EXPLAIN logs k').queues[1].priority)
    -- The last good generation has no file at all.
    broker:write_rule('filter/10-no.lua', 'return {')
    broker:restart()
    c = broker:connect()
    assert.equal('last good', c:document('RULES status').origin)
    publish('logs k', 'z')
  end)

  it('may be a candidate, or be pushed with one filter in it', function()
    start { rules = {}, args = { '--store', 'none', '--rules-candidates', '@DIR@', '--rules-writable' } }
    c:ok 'DECLARE exchange logs topic'
    c:ok 'DECLARE queue jobs retry=fixed'
    c:ok 'BIND jobs logs #'
    local dir = broker:copy_rules('next', { ['filter/10-gold.lua'] = [[
return { match = { exchange = "logs" }, publish = function(msg) msg.priority = 9 end }
]] })
    shell.write_file(dir .. '/filter/10-gold_spec.lua', [[
local tidemq = require "tidemq"
it("has the shipped scripts", function()
  local engine = assert(tidemq.open())
  local retry = assert(engine:strategy("retry", "fixed", { delay = "3s" }))
  assert.equal(3000, retry:decide({}, { failures = 1 }))
  assert(engine:index("topic"))
  assert.equal(9, assert(engine:filter { exchange = "logs", key = "k" }).priority)
end)
]])
    c:document('RULES shadow ' .. dir)
    publish('logs k', 'x')
    local differences = c:document('RULES shadow status').differences
    assert.same({ 0, 0 }, { differences.errors, differences.queues })
    c:ok 'RULES shadow drop'
    assert.is_false(c:document('RULES replay ' .. dir).in_force)
    assert.matches('nothing is wrong', (broker:cli('check', dir)))
    local out, status = shell.run(('%s test %s 2>&1'):format(Broker.binary(), dir))
    assert.equal(0, status, out)
    out, status = broker:cli('rules', 'push', dir, '--now')
    assert.equal(0, status, out)
    assert.equal('filter/10-gold.lua', script('10-gold').file)
    assert.equal(9, c:document('EXPLAIN logs k').priority)
    assert.equal('filter\nfilter/10-gold.lua\n', (shell.run(("cd '%s' && find * | sort"):format(broker.rules))))
  end)

  it('passes the checks, a gate included', function()
    start { rules = {}, args = { '--store', 'none', '--rules-gate', 'test' } }
    -- A sanitized binary is deeper in the build directory, and does not find it by itself.
    assert(os.execute(('ln -s "$(pwd)/lua" %s/lua'):format(broker.dir)))
    local function run(words)
      return shell.run(("cd '%s' && '%s' %s 2>&1"):format(broker.dir, Broker.binary(), words))
    end
    assert.matches('rules: nothing is wrong', (run 'check rules'))
    local out, status = run 'rules new retry mine'
    assert.equal(0, status, out)
    out, status = run 'test rules'
    assert.equal(0, status, out)
    c:document 'RULES reload'
    assert.equal('retry/mine.lua', script('mine').file)
    shell.write_file(broker.dir .. '/defs', [[
DECLARE exchange logs topic
DECLARE queue jobs retry=exponential retry.base=100ms
BIND jobs logs a.*
]])
    assert.matches('rules: nothing is wrong', (run 'check --definitions defs rules'))
    shell.write_file(broker.dir .. '/lines', ':strategy("retry", "fixed"):decide({}, { failures = 1 })\n')
    out, status = run 'rules repl <lines'
    assert.matches('10000', out)
    assert.equal(0, status)
  end)

  it('is the default when it is there', function()
    start { rules = {}, args = { '--store', 'none' } }
    local out = shell.run(("mkdir -p '%s/own/rules'; cd '%s/own'; timeout %d '%s' serve --store none --http none "
      .. "--listen nowhere 2>&1"):format(broker.dir, broker.dir, wait.limit(20), Broker.binary()))
    assert.is_nil(out:find('there is no rules directory', 1, true), out)
    local status
    out, status = shell.run(("'%s' serve --store none --rules '%s/missing' 2>&1"):format(Broker.binary(), broker.dir))
    assert.equal(1, status)
    assert.matches("there is no rules directory '[^']+/missing'", out)
  end)

  it('hides nothing that is broken in its own files', function()
    start { rules = { ['retry/mine.lua'] = NEVER }, args = { '--store', 'none' } }
    assert.equal('retry/mine.lua', script('mine').file)
    assert(os.execute(("ln -s nowhere.lua '%s/retry/fixed.lua'"):format(broker.rules)))
    c:send 'RULES reload\r\n'
    c:expect '^ERR rule retry/fixed%.lua: cannot be read'
  end)
end)
