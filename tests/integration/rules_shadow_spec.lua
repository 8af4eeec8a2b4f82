-- Candidate rules beside the active ones: in the shadow of live publishes, and over those
-- of the recent past. Neither has any effect.
local Broker = require 'support.broker'
local wait = require 'support.wait'

local function publish(c, exchange, key, options)
  local text = 'hello'
  c:send(('PUB %s %s%s %d\r\n%s\r\n'):format(exchange, key, options and ' ' .. options or '', #text, text))
  return c:expect '^(%u+)'
end

local function pick(n)
  return ('return { pure = true, pick = function() return %d end }\n'):format(n)
end

local broker, c

local function start(args)
  broker = Broker.start {
    rules = { ['sharding/mine.lua'] = pick(0), ['sharding/turn.lua'] = [[
local n = 0
return { pick = function() n = n + 1 return n end }
]] },
    args = { '--fsync', 'no', table.unpack(args or {}) },
  }
end

local function enter_vhost()
  c = broker:enter_vhost()
  c:ok 'DECLARE queue q shards=4 sharding=mine'
  c:ok 'DECLARE queue t shards=4 sharding=turn'
  c:ok 'DECLARE exchange x topic'
  c:ok 'BIND q x a.*'
end

describe('RULES shadow', function()
  setup(start)
  teardown(function() broker:destroy() end)
  before_each(function()
    enter_vhost()
    c:request 'RULES shadow drop' -- of the test before, if there is one
  end)
  after_each(function() c:close() end)

  it('reports what would be decided otherwise, and does nothing', function()
    local dir = broker:copy_rules('next', { ['sharding/mine.lua'] = pick(3) })
    local status = c:document('RULES shadow ' .. dir .. ' share=100%')
    assert.is_true(status.active)
    assert.equal(1, status.share)
    for _ = 1, 30 do publish(c, 'x', 'a.b', 'h:tier=gold') end
    publish(c, '-', 'nobody')
    status = c:document 'RULES shadow status'
    assert.equal(31, status.compared)
    assert.equal(30, status.differing)
    assert.equal(30, status.differences.shards)
    assert.equal(0, status.differences.queues)
    assert.equal(20, #status.samples)
    local sample = status.samples[1]
    assert.same({ 'shard' }, sample.differs)
    assert.equal('x', sample.exchange)
    assert.equal('a.b', sample.key)
    assert.equal('gold', sample.headers.tier)
    assert.same({ { queue = 'q', shard = 0, rank = sample.live.queues[1].rank } }, sample.live.queues)
    assert.equal(3, sample.shadow.queues[1].shard)
    assert.equal(30, c:document('STATS q').ready)
    assert.equal(0, c:document('EXPLAIN - q').queues[1].shard)
  end)

  it('shows the content of publishes to its own vhost alone', function()
    local dir = broker:copy_rules('next', { ['sharding/mine.lua'] = pick(3) })
    c:document('RULES shadow ' .. dir .. ' share=100%')
    publish(c, 'x', 'a.b', 'h:tier=gold id=once')
    local other = broker:enter_vhost()
    local function look(samples, is_own)
      assert.equal(1, #samples)
      assert.equal('x', samples[1].exchange)
      assert.equal(is_own and 'a.b' or nil, samples[1].key)
      assert.equal(is_own and 'once' or nil, samples[1].dedupe_id)
      assert.same(is_own and { tier = 'gold' } or nil, samples[1].headers)
    end
    look(c:document 'RULES shadow status'.samples, true)
    look(other:document 'RULES shadow status'.samples, false)
    local before = #c:document 'RULES recent 1024'
    publish(other, '-', 'nobody')
    local recent = other:document 'RULES recent'
    assert.same({ 1, 'nobody', broker.vhost }, { #recent, recent[1].key, recent[1].vhost })
    assert.equal(before, #c:document 'RULES recent 1024')
    assert.is_truthy(before > 0)
    local changes = other:document('RULES replay ' .. dir).changes
    assert.is_true(#changes > 0)
    for _, change in ipairs(changes) do assert.is_nil(change.key) end
    other:close()
  end)

  it('follows bindings and queues as they change', function()
    local dir = broker:copy_rules('next', {})
    c:document('RULES shadow ' .. dir .. ' share=100')
    c:ok 'DECLARE queue late'
    c:ok 'DECLARE exchange y fanout'
    c:ok 'BIND late y -'
    c:ok 'BIND late x b.*'
    publish(c, 'y', 'k')
    publish(c, 'x', 'b.c')
    c:ok 'UNBIND late x b.*'
    c:ok 'BIND q x c.*'
    publish(c, 'x', 'b.c')
    publish(c, 'x', 'c.c')
    c:ok 'DELETE queue late'
    publish(c, 'y', 'k')
    publish(c, '-', 'late')
    local status = c:document 'RULES shadow status'
    assert.equal(6, status.compared)
    assert.equal(0, status.differing)
  end)

  it('takes the share that it is told', function()
    c:document('RULES shadow ' .. broker:copy_rules('next', {}) .. ' share=25%')
    for _ = 1, 400 do publish(c, '-', 'nobody') end
    local status = c:document 'RULES shadow status'
    assert.equal(400, status.seen)
    assert.is_true(status.compared > 50 and status.compared < 160, status.compared)
  end)

  it('tells of errors, with their text', function()
    c:document('RULES shadow ' .. broker:copy_rules('next', { ['sharding/mine.lua'] =
      'return { pure = true,\n  pick = function(msg) error("no " .. msg.key) end }\n' }) .. ' share=100')
    publish(c, 'x', 'a.b')
    local status = c:document 'RULES shadow status'
    assert.equal(1, status.differences.errors)
    assert.is_truthy(status.samples[1].shadow.error:find 'sharding/mine.lua:2: no a.b')
    assert.equal('rule', status.samples[1].shadow.code)
    assert.is_nil(status.samples[1].live.error)
  end)

  it('says so when it cannot follow, and calls nothing else a difference', function()
    local function routing(unbind, bind)
      return ([[return {
  new = function() return {} end,
  bind = function(index, pattern, dest) %s index[dest] = pattern end,
  unbind = function(index, pattern, dest) %s index[dest] = nil end,
  route = function(index, msg, to) for dest, key in pairs(index) do if key == msg.key then to(dest) end end end,
}
]]):format(bind, unbind)
    end
    broker:write_rule('routing/exact.lua', routing('', ''))
    c:document 'RULES reload'
    c:ok 'DECLARE exchange e exact'
    c:ok 'BIND q e old'
    local dir = broker:copy_rules('next', {
      ['routing/exact.lua'] = routing('error "stays"', 'if pattern == "no" then error "refused" end'),
    })
    c:document('RULES shadow ' .. dir .. ' share=100%')
    c:ok 'BIND t e no'
    c:ok 'UNBIND q e old'
    c:ok 'BIND q e new'
    for _ = 1, 3 do publish(c, 'e', 'old') end
    local status = c:document 'RULES shadow status'
    assert.equal(3, status.compared)
    assert.equal(3, status.differences.errors)
    assert.equal(0, status.differences.queues)
    assert.matches("exchange 'e'", status.samples[1].shadow.error)
  end)

  it('does not call it a difference that an unchanged script remembers otherwise', function()
    publish(c, '-', 't')
    c:document('RULES shadow ' .. broker:copy_rules('next', {}) .. ' share=100')
    for _ = 1, 5 do publish(c, '-', 't') end
    assert.equal(0, c:document('RULES shadow status').differing)
    c:ok 'RULES shadow drop'
    c:document('RULES shadow ' .. broker:copy_rules('then', { ['sharding/turn.lua'] = pick(3) }) .. ' share=100')
    for _ = 1, 4 do publish(c, '-', 't') end
    assert.equal(3, c:document('RULES shadow status').differing)
  end)

  it('has filters too, whose copies and refusals count', function()
    local dir = broker:copy_rules('next', { ['filter/mine.lua'] = [[
return { match = { exchange = '*' }, publish = function(msg)
  if msg.key == 'a.bad' then return false, 'bad key' end
  if msg.key == 'a.copy' then msg:copy { exchange = '', key = 't' } end
  if msg.key == 'a.move' then msg.exchange = '' msg.key = 't' end
end }
]] })
    c:document('RULES shadow ' .. dir .. ' share=100')
    for _, key in ipairs { 'bad', 'copy', 'move', 'plain' } do publish(c, 'x', 'a.' .. key) end
    local status = c:document 'RULES shadow status'
    assert.equal(4, status.compared)
    assert.equal(3, status.differing)
    assert.equal(1, status.differences.errors)
    assert.equal(2, status.differences.queues)
    local moved, copied, bad = table.unpack(status.samples)
    assert.equal('t', moved.shadow.queues[1].queue)
    assert.equal('q', copied.shadow.queues[1].queue)
    assert.equal('t', copied.shadow.queues[2].queue)
    assert.equal('rejected', bad.shadow.code)
    assert.is_truthy(bad.shadow.error:find 'bad key')
    assert.equal(4, c:document('STATS q').ready)
    assert.equal(0, c:document('STATS t').ready)
  end)

  it('can be dropped, and be promoted', function()
    finally(function() c:document 'RULES reload' end)
    local dir = broker:copy_rules('next', { ['sharding/mine.lua'] = pick(3) })
    c:send 'RULES shadow promote\r\n'
    c:expect '^ERR not%-found nothing is in the shadow'
    c:document('RULES shadow ' .. dir)
    c:send('RULES shadow ' .. dir .. '\r\n')
    c:expect '^ERR exists'
    c:ok 'RULES shadow drop'
    assert.is_false(c:document('RULES shadow status').active)
    local hash = c:document('RULES shadow ' .. dir).hash
    local status = c:document 'RULES shadow promote'
    assert.equal('promote', status.origin)
    assert.equal(hash, status.hash)
    assert.equal(3, c:document('EXPLAIN - q').queues[1].shard)
    assert.is_false(c:document('RULES shadow status').active)
    local log = c:document 'RULES log'
    assert.equal('promote', log[1].origin)
    assert.same({ 'sharding/mine.lua' }, log[1].changed)
  end)

  it('refuses rules that a reload would refuse', function()
    c:send('RULES shadow ' .. broker:copy_rules('broken', { ['sharding/mine.lua'] = 'return {' }) .. '\r\n')
    c:expect '^ERR rule sharding/mine.lua:1:'
    local dir = broker:copy_rules('without', {})
    assert(os.remove(dir .. '/sharding/mine.lua'))
    c:send('RULES shadow ' .. dir .. '\r\n')
    c:expect "^ERR rule sharding/mine.lua: is missing, but queue 'q' of vhost 'test%-%d+' uses it"
    c:send 'RULES shadow nowhere\r\n'
    c:expect "^ERR not%-found there is no directory '/[^']*/nowhere' on the broker's machine"
    for _, share in ipairs { '0', '101', 'x', '10%%', '-1', '' } do
      c:send('RULES shadow ' .. dir .. ' share=' .. share .. '\r\n')
      c:expect '^ERR syntax'
    end
    assert.is_false(c:document('RULES shadow status').active)
  end)

  it('is stopped when it holds up the broker', function()
    c:document('RULES shadow ' .. broker:copy_rules('slow', { ['sharding/mine.lua'] =
      'return { pick = function() while true do end end }\n' }) .. ' share=100')
    for _ = 1, 8 do assert.equal('OK', publish(c, 'x', 'a.b')) end
    local status = c:document 'RULES shadow status'
    assert.is_true(status.stopped)
    assert.equal(5, status.compared)
  end)

  it('ends with the broker', function()
    c:document('RULES shadow ' .. broker:copy_rules('next', {}))
    broker:expect_clean_stop()
  end)

  it('is a verb of the command line', function()
    local dir = broker:copy_rules('next', { ['sharding/mine.lua'] = pick(3) })
    local output, status = broker:cli('rules', 'shadow', dir, '--share', '100%')
    assert.equal(0, status, output)
    publish(c, 'x', 'a.b')
    output = broker:cli('rules', 'shadow', 'status')
    assert.is_truthy(output:find 'differing +1' and output:find 'DIFFERS', output)
    output, status = broker:cli('rules', 'shadow', 'drop')
    assert.equal('OK\n', output)
    assert.equal(0, status)
  end)
end)

describe('RULES recent', function()
  after_each(function() broker:destroy() end)

  it('has the last publishes with what was decided', function()
    start()
    enter_vhost()
    publish(c, 'x', 'a.b', 'pri=7 h:tier=gold')
    publish(c, '-', 'nobody')
    local recent = c:document 'RULES recent'
    assert.equal(2, #recent)
    assert.equal('nobody', recent[1].key)
    assert.equal(0, recent[1].decision.count)
    assert.equal('x', recent[2].exchange)
    assert.equal(7, recent[2].priority)
    assert.equal(5, recent[2].size)
    assert.equal('gold', recent[2].headers.tier)
    assert.equal('q', recent[2].decision.queues[1].queue)
    assert.is_nil(recent[2].payload)
    assert.equal(1, #c:document 'RULES recent 1')
    c:send 'RULES recent 0\r\n'
    c:expect '^ERR syntax'
    c:ok 'DELETE queue q'
    assert.equal('(deleted)', c:document('RULES recent')[2].decision.queues[1].queue)
  end)

  it('is bounded', function()
    start()
    enter_vhost()
    for _ = 1, 1100 do publish(c, '-', 'nobody') end
    local recent = c:document 'RULES recent 1024'
    assert.equal(1024, #recent)
    assert.equal(1100, recent[1].number)
    local big = ('x'):rep(3000000)
    for _ = 1, 20 do
      c:send(('PUB - nobody %d\r\n%s\r\n'):format(#big, big))
      c:expect '^OK'
    end
    assert.equal(3000000, c:document('RULES recent')[1].size)
  end)

  it('has payloads only when told to keep them', function()
    start { '--replay-payloads' }
    enter_vhost()
    publish(c, 'x', 'a.b')
    assert.equal('hello', c:document('RULES recent')[1].payload)
  end)
end)

describe('RULES replay', function()
  after_each(function() broker:destroy() end)

  it('decides the recent publishes again, and shows what would change', function()
    start()
    enter_vhost()
    for n = 1, 10 do publish(c, 'x', 'a.' .. n) end
    publish(c, '-', 't')
    local result = c:document('RULES replay ' .. broker:copy_rules('next', { ['sharding/mine.lua'] =
      'return { pure = true, pick = function(msg) return msg.key == "a.7" and 2 or 0 end }\n' }))
    assert.equal(11, result.publishes)
    assert.equal(1, result.changed)
    assert.equal('a.7', result.changes[1].key)
    assert.equal(0, result.changes[1].before.queues[1].shard)
    assert.equal(2, result.changes[1].after.queues[1].shard)
    assert.equal(0, c:document('RULES replay ' .. broker.rules).changed)
    assert.equal(10, c:document('STATS q').ready)
  end)

  it('shows a script the payload only where it is kept', function()
    local seen = [[
return { pick = function(msg) return #msg.payload end }
]]
    start()
    enter_vhost()
    publish(c, 'x', 'a.b')
    local result = c:document('RULES replay ' .. broker:copy_rules('next', { ['sharding/mine.lua'] = seen }))
    assert.is_false(result.payloads)
    assert.equal(0, result.changed)
    assert.equal(1, result.needs_payload)
    broker:destroy()
    start { '--replay-payloads' }
    enter_vhost()
    publish(c, 'x', 'a.b')
    result = c:document('RULES replay ' .. broker:copy_rules('next', { ['sharding/mine.lua'] = seen }))
    assert.is_true(result.payloads)
    assert.equal(1, result.changes[1].after.queues[1].shard)
  end)

  it('goes on beside other work, and is one at a time', function()
    start()
    enter_vhost()
    local dir = broker:copy_rules('slow', { ['sharding/mine.lua'] =
      'return { pick = function() while true do end end }\n' })
    for _ = 1, 10 do publish(c, 'x', 'a.b') end
    c:send('RULES replay ' .. dir .. '\r\n')
    local d = broker:connect()
    assert.is_truthy(wait.poll(function()
      d:send('RULES replay ' .. dir .. '\r\n')
      return d:expect '^%u+ %S+' == 'ERR busy'
    end))
    local result = c:expect_json()
    assert.equal(10, result.changed)
    assert.is_truthy(result.changes[1].after.error:find 'sharding/mine.lua:1:')
  end)

  it('is a table on the command line', function()
    start()
    enter_vhost()
    publish(c, 'x', 'a.b')
    local dir = broker:copy_rules('next', { ['sharding/mine.lua'] = pick(3) })
    local output, status = broker:cli('rules', 'replay', dir)
    assert.equal(0, status, output)
    assert.is_truthy(output:find 'changed +1' and output:find 'shard 3', output)
    output, status = broker:cli('rules', 'recent')
    assert.equal(0, status, output)
    assert.is_truthy(output:find 'DECISION', output)
  end)
end)
