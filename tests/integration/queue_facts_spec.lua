-- tide.queue through the binary: filters that look at queues and topics.

local Broker = require 'support.broker'
local wait = require 'support.wait'

describe('tide.queue', function()
  local broker, c, written

  setup(function() broker = Broker.start { rules = {}, args = { '--fsync', 'no' } } end)
  teardown(function() broker:expect_clean_stop() end)

  before_each(function()
    c, written = broker:connect(), {}
    c:ok 'DECLARE exchange orders topic'
    c:ok 'DECLARE queue q'
    c:ok 'BIND q orders #'
  end)

  after_each(function()
    for path in pairs(written) do broker:remove_rule(path) end
    c:ok 'DELETE queue q'
    c:ok 'DELETE exchange orders'
    c:document 'RULES reload'
    c:close()
  end)

  local function use(path, text)
    written[path] = true
    broker:write_rule(path, text)
    c:document 'RULES reload'
  end

  -- A filter that answers each publish with what it sees of the queue that the key names.
  local function look(expression)
    use('filter/look.lua', ([[
      return { match = { exchange = "orders" }, publish = function(msg)
        local q = tide.queue(msg.key)
        return false, q and tostring(%s) or "none"
      end }]]):format(expression))
    return function(key, client)
      return (client or c):request('PUB orders ' .. key, ''):match '^ERR rejected (.*) %(filter/look.lua%)$'
    end
  end

  it('lets a filter shed load', function()
    use('filter/shed.lua', [[
      return { match = { exchange = "orders" }, publish = function(msg)
        if msg.priority < 5 and tide.queue("q").ready >= 3 then return false, "overloaded" end
      end }]])
    for _ = 1, 3 do c:ok('PUB orders x', '') end
    assert.equal('ERR rejected overloaded (filter/shed.lua)', c:request('PUB orders x', ''))
    assert.equal('overloaded', c:document('EXPLAIN orders x').filters[1].rejected)
    c:ok('PUB orders x pri=5', '')
    c:ok 'GET q max=2 ack=auto'
    for _ = 1, 2 do c:expect_msg() end
    c:ok('PUB orders x', '')
  end)

  it('counts messages in each state', function()
    local see = look '("%d %d %d %d %d"):format(q.ready, q.unacked, q.delayed, q.buried, q.messages)'
    assert.equal('0 0 0 0 0', see 'q')
    for _ = 1, 5 do c:ok('PUB - q', '') end
    c:ok('PUB - q delay=1h', '')
    assert.equal('5 0 1 0 6', see 'q')
    c:ok 'GET q max=2'
    for _ = 1, 2 do c:expect_msg() end
    assert.equal('3 2 1 0 6', see 'q')
    c:ok 'NACK 1 bury'
    assert.equal('3 1 1 1 6', see 'q')
    assert.equal('none', see 'other')
  end)

  it('knows consumers, rates, bytes that are limited, and the oldest message', function()
    local see = look '("%s %d %.1f %.1f"):format(q.bytes, q.consumers, q.in_rate, q.out_rate)'
    c:ok 'DECLARE queue limited max-bytes=1000'
    assert.equal('nil 0 0.0 0.0', see 'q')
    assert.equal('0 0 0.0 0.0', see 'limited')
    for _ = 1, 10 do c:ok('PUB - limited', 'hello') end
    assert.equal('50 0', see('limited'):match '^%S+ %S+')
    local other = broker:connect()
    other:ok 'SUB limited s1'
    assert.equal('0 1', see('limited'):match '^%S+ %S+')
    -- Once the second is over, STATS and the filter agree.
    assert.is_true(wait.poll(function()
      local rate = tonumber(see('limited'):match '(%S+) %S+$')
      return rate > 0 and rate == c:document('STATS queue limited').rates.in_10s
    end))
    other:close()
    c:ok 'DELETE queue limited'
    see = look 'q.oldest_ms'
    assert.equal('0', see 'q')
    c:ok('PUB - q', '')
    assert.is_true(wait.poll(function() return tonumber((see 'q')) > 20 end))
    assert.is_true(tonumber((see 'q')) < 60000)
    assert.is_true(c:document('STATS queue q').oldest_ready_ms >= 20)
  end)

  it('of a topic tells what a topic has', function()
    c:ok 'DECLARE topic t'
    for _ = 1, 3 do c:ok('PUB - t', 'hello') end
    local see = look '("%s %s %s %s %s"):format(q.ready, q.oldest_ms, q.messages, q.consumers, q.bytes > 15)'
    assert.equal('nil nil 3 0 true', see 't')
    c:ok 'DELETE topic t'
  end)

  it('is of the vhost of the message', function()
    local see, other = look 'q.ready', broker:connect()
    c:ok('PUB - q', '')
    other:enter_vhost 'elsewhere'
    other:ok 'DECLARE exchange orders topic'
    assert.equal('none', see('q', other))
    other:ok 'DECLARE queue q'
    assert.equal('0', see('q', other))
    assert.equal('1', see('q', c))
    other:close()
  end)

  it('answers candidate rules, with what is there now', function()
    use('filter/look.lua', [[return { match = { exchange = "orders" }, publish = function() end }]])
    local dir = broker:copy_rules('next', { ['filter/look.lua'] = [[
      return { match = { exchange = "orders" }, publish = function(msg)
        if tide.queue("q").ready > 1 then return false, "overloaded" end
      end }]] })
    c:document('RULES shadow ' .. dir .. ' share=100%')
    for _ = 1, 3 do c:ok('PUB orders x', '') end
    local status = c:document 'RULES shadow status'
    assert.equal(3, status.compared)
    assert.equal(1, status.differing)
    c:ok 'RULES shadow drop'
  end)
end)
