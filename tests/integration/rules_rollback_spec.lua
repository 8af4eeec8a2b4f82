-- --rules-rollback N: new rules that fail each of the first N publishes go again.
local Broker = require 'support.broker'

local GOOD <const> = 'return { match = {}, publish = function(msg) msg.priority = 1 end }\n'
local BAD <const> = 'return { match = {}, publish = function(msg) msg.priority = msg.headers.n + 1 end }\n'

describe('--rules-rollback', function()
  local broker, c

  local function start(...)
    broker = Broker.start { rules = { ['filter/10-mine.lua'] = GOOD }, args = { '--rules-rollback', '3', ... } }
    c = broker:connect()
    c:ok 'DECLARE queue jobs'
  end

  after_each(function() broker:destroy() end)

  local function publish(options)
    c:send(('PUB - jobs %s1\r\nx\r\n'):format(options or ''))
    return c:expect '^%u+.*$'
  end

  local function load_rule(text)
    broker:write_rule('filter/10-mine.lua', text)
    c:document 'RULES reload'
  end

  it('goes back to the rules before when the new ones fail every publish', function()
    start()
    assert.matches('^OK', publish())
    local good = c:document('RULES status').hash
    load_rule(BAD)
    for _ = 1, 3 do assert.matches('^ERR rule filter/10%-mine', publish()) end
    broker:expect_log 'the first 3 publishes by %x+ have failed; going back to the rules before'
    broker:expect_log 'generation 3 is active, from rollback'
    assert.matches('^OK', publish())
    local status = c:document 'RULES status'
    assert.same({ good, 'rollback' }, { status.hash, status.origin })
    assert.equal('--rules-rollback', c:document('RULES log')[1].by)
    -- The directory is as it was left; a change of it counts anew.
    load_rule(BAD .. '-- again\n')
    for _ = 1, 3 do assert.matches('^ERR rule', publish()) end
    broker:expect_log 'generation 5 is active, from rollback'
    assert.matches('^OK', publish())
    assert.equal(good, c:document('RULES status').hash)
  end)

  it('keeps rules of which one publish is no failure, also before many that are', function()
    start()
    load_rule(BAD)
    assert.matches('^ERR rule', publish())
    assert.matches('^OK', publish 'h:n=1 ')
    for _ = 1, 10 do assert.matches('^ERR rule', publish()) end
    assert.equal('reload', c:document('RULES status').origin)
  end)

  it('counts neither refusals nor the rules of the start', function()
    start()
    load_rule 'return { match = {}, publish = function() return false, "no" end }\n'
    for _ = 1, 10 do assert.matches('^ERR rejected', publish()) end
    assert.equal('reload', c:document('RULES status').origin)
    load_rule(BAD)
    broker:restart()
    c = broker:connect()
    for _ = 1, 10 do assert.matches('^ERR rule', publish()) end
    assert.equal('start', c:document('RULES status').origin)
  end)
end)
