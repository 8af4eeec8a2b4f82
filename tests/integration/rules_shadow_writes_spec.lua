-- The shadow compares what filters write and what retry scripts decide, too.
local Broker = require 'support.broker'
local json = require 'dkjson'
local socket = require 'socket'
local wait = require 'support.wait'

local broker, c

local function start(rules)
  broker = Broker.start { rules = rules, args = { '--store', 'none' } }
  c = broker:connect()
end

--- The broker's rules with these files on top, in the shadow.
local function shadow(files)
  return c:document('RULES shadow ' .. broker:copy_rules('next', files) .. ' share=100')
end

--- The wall clock in milliseconds, as the broker has it.
local function now_ms()
  return socket.gettime() * 1000
end

local function filter(body)
  return ('return { match = { exchange = "*" }, publish = function(msg)\n%s\nend }\n'):format(body)
end

--- The changes of a sample by what they are about.
local function by_field(sample)
  local found = {}
  for _, change in ipairs(sample.changes) do
    found[(change.copy and change.copy .. ':' or '') .. (change.name or change.field)] = change
  end
  return found
end

describe('filters in the shadow', function()
  after_each(function() broker:destroy() end)

  it('are compared with the active ones by what they write', function()
    start { ['filter/mine.lua'] = filter [[
      msg.headers.tier, msg.headers.gone = "gold", "x"
      msg.priority = 3
    ]] }
    c:ok 'DECLARE queue q'
    shadow { ['filter/mine.lua'] = filter [[
      msg.headers.tier, msg.headers.new = "silver", "y"
      msg.priority = 4
      msg.payload = msg.payload .. "!"
    ]] }
    c:ok('PUB - q h:kept=1', 'hello')
    local s = c:document 'RULES shadow status'
    assert.equal(1, s.differing)
    assert.equal(1, s.differences.messages)
    assert.equal(0, s.differences.queues)
    assert.same({ 'message' }, s.samples[1].differs)
    local changes = by_field(s.samples[1])
    assert.same({ 'gold', 'silver' }, { changes.tier.live, changes.tier.shadow })
    assert.same({ 'x', json.null }, { changes.gone.live, changes.gone.shadow or json.null })
    assert.same({ json.null, 'y' }, { changes.new.live or json.null, changes.new.shadow })
    assert.same({ 3, 4 }, { changes.priority.live, changes.priority.shadow })
    assert.same({ 5, 6 }, { changes.payload.live_bytes, changes.payload.shadow_bytes })
    assert.is_nil(changes.kept)
    -- The active rules were applied.
    local m = c:get('q')[1]
    assert.same({ 'hello', 'gold', nil }, { m.payload, m.headers.tier, m.headers.new })
  end)

  it('and by their copies, and where they send it', function()
    start { ['filter/mine.lua'] = filter [[
      if msg.key == "q" then return end
      msg:copy { exchange = "", key = "q", priority = 1 }
    ]] }
    c:ok 'DECLARE queue q'
    c:ok 'DECLARE exchange x fanout'
    c:ok 'BIND q x -'
    shadow { ['filter/mine.lua'] = filter [[
      if msg.key == "q" or msg.key == "nowhere" or msg.exchange == "x" then return end
      msg:copy { exchange = "", key = "q", priority = 2 }
      msg:copy { exchange = "", key = "nowhere" }
      if msg.key == "move" then msg.exchange, msg.key = "x", "moved" end
    ]] }
    c:ok('PUB - plain', 'hello')
    c:ok('PUB - move', 'hello')
    local s = c:document 'RULES shadow status'
    assert.equal(2, s.differences.messages)
    local moved, plain = by_field(s.samples[1]), by_field(s.samples[2])
    assert.same({ 1, 2 }, { plain.copies.live, plain.copies.shadow })
    assert.same({ 1, 2 }, { plain['1:priority'].live, plain['1:priority'].shadow })
    assert.is_nil(plain.key)
    assert.same({ 'move', 'moved' }, { moved.key.live, moved.key.shadow })
    assert.same({ '-', 'x' }, { moved.exchange.live, moved.exchange.shadow })
  end)

  it('see the same time and the same chance', function()
    local dice = filter [[
      msg.headers.now = tostring(tide.now())
      msg.headers.random = tostring(tide.random(1 << 40))
    ]]
    start { ['filter/mine.lua'] = dice }
    c:ok 'DECLARE queue q'
    shadow { ['filter/mine.lua'] = '-- another file\n' .. dice }
    local seen = {}
    for _ = 1, 200 do c:ok('PUB - q', 'x') end
    local s = c:document 'RULES shadow status'
    assert.equal(200, s.compared)
    assert.equal(0, s.differing)
    c:send 'GET q max=200\r\n'
    c:expect_line 'OK 200'
    for _ = 1, 200 do seen[c:expect_msg().headers.random] = true end
    local count = 0
    for _ in pairs(seen) do count = count + 1 end
    assert.equal(200, count)
  end)

  it('differ in nothing when they are the same', function()
    local same = filter 'msg.headers.a = msg.key if msg.key ~= "q" then msg:copy { exchange = "", key = "q" } end'
    start { ['filter/mine.lua'] = same }
    c:ok 'DECLARE queue q'
    shadow {}
    for _ = 1, 20 do c:ok('PUB - k', 'x') end
    assert.equal(20, c:document('STATS q').ready)
    assert.equal(0, c:document('RULES shadow status').differing)
  end)
end)

describe('retry scripts in the shadow', function()
  after_each(function() broker:destroy() end)

  local function decide(body)
    return ('return { decide = function(msg, failure, opts, state)\n%s\nend }\n'):format(body)
  end

  local function fail_one(payload)
    c:ok('PUB - q', payload)
    c:ok('NACK ' .. c:get('q')[1].tag)
  end

  it('are asked about the same failure, and the live one is done', function()
    start { ['retry/mine.lua'] = decide 'return 3600000' }
    c:ok 'DECLARE queue q retry=mine'
    shadow { ['retry/mine.lua'] = decide [[
      if msg.payload == "same" then return 3600000 end
      if msg.payload == "bad" then error("no idea") end
      return msg.payload == "bury" and tide.BURY or failure.failures * 1000
    ]] }
    for _, payload in ipairs { 'same', 'bury', 'delay', 'bad' } do fail_one(payload) end
    local f = c:document('RULES shadow status').failures
    assert.same({ 4, 4, 3 }, { f.seen, f.compared, f.differing })
    local bad, delay, bury = f.samples[1], f.samples[2], f.samples[3]
    assert.same({ action = 'retry', delay_ms = 3600000 }, bad.live)
    assert.equal('rule', bad.shadow.code)
    assert.is_truthy(bad.shadow.error:find 'retry/mine.lua:3: no idea')
    assert.same({ action = 'retry', delay_ms = 1000 }, delay.shadow)
    assert.same({ action = 'bury' }, bury.shadow)
    assert.same({ 'q', 'nack', 1, 1, 'q' }, { bury.queue, bury.reason, bury.attempts, bury.failures, bury.key })
    local stats = c:document 'STATS q'
    assert.same({ 4, 0 }, { stats.delayed, stats.buried })
    c:ok 'DELETE queue q'
    assert.equal('(deleted)', c:document('RULES shadow status').failures.samples[1].queue)
  end)

  it('see the same time, chance, counters and shared values, and change none', function()
    local body = [[
      local n = tide.counter("fails"):incr()
      local last = tide.shared.get("last") or 0
      tide.shared.set("last", last + 1)
      return 3600000 + n * 1000 + last * 10 + tide.random(0, 9) + tide.now() % 1000 * 100000
    ]]
    start { ['retry/mine.lua'] = decide(body) }
    c:ok 'DECLARE queue q retry=mine'
    fail_one 'before'
    shadow { ['retry/mine.lua'] = '-- another\n' .. decide(body) }
    for _ = 1, 30 do fail_one 'x' end
    local f = c:document('RULES shadow status').failures
    assert.same({ 30, 0 }, { f.compared, f.differing })
    assert.equal(31, c:document('RULES status').counters.fails)
    c:ok 'RULES shadow drop'
    shadow { ['retry/mine.lua'] = decide [[
      tide.counter("fails"):incr(100)
      return tide.shared.get("last")
    ]] }
    fail_one 'x'
    local sample = c:document('RULES shadow status').failures.samples[1]
    assert.equal(31, sample.shadow.delay_ms)
    assert.equal(32, c:document('RULES status').counters.fails)
  end)

  it('that are the same are no difference, unless a module is another', function()
    start {
      ['retry/mine.lua'] = 'local n, delay = 0, require "lib.delay"\n' .. decide 'n = n + 1 return n + delay',
      ['lib/delay.lua'] = 'return 3600000\n',
    }
    c:ok 'DECLARE queue q retry=mine'
    fail_one 'x'
    shadow {}
    fail_one 'x'
    assert.equal(0, c:document('RULES shadow status').failures.differing)
    c:ok 'RULES shadow drop'
    shadow { ['lib/delay.lua'] = 'return 7200000\n' }
    fail_one 'x'
    local f = c:document('RULES shadow status').failures
    assert.equal(1, f.differing)
    assert.same({ 3600003, 7200001 }, { f.samples[1].live.delay_ms, f.samples[1].shadow.delay_ms })
  end)

  it('are compared by what becomes of an expired message', function()
    start { ['retry/mine.lua'] = decide 'return 1000' }
    c:ok 'DECLARE queue q retry=mine'
    shadow { ['retry/mine.lua'] = decide 'return failure.reason == "expired" and 5000 or 1000' }
    c:ok('PUB - q ttl=1', 'x')
    local message = c:peek('q')[1]
    if message then assert(wait.poll(function() return now_ms() > message.expires end)) end
    assert.same({}, c:get 'q')
    local f = c:document('RULES shadow status').failures
    assert.same({ 1, 0 }, { f.compared, f.differing })
  end)

  it('are shown by the command line', function()
    start { ['retry/mine.lua'] = decide 'return 3600000' }
    c:ok 'DECLARE queue q retry=mine'
    shadow { ['retry/mine.lua'] = decide 'return tide.BURY' }
    fail_one 'x'
    local output, code = broker:cli('rules', 'shadow', 'status')
    assert.equal(0, code, output)
    assert.is_truthy(output:find 'action=retry' and output:find 'action=bury', output)
  end)
end)
