-- The wall clock is set while a broker is at work, or between two of its runs.
local Broker = require 'support.broker'
local Clock = require 'support.clock'
local socket = require 'socket'
local wait = require 'support.wait'

local HOUR = 3600

describe('a broker whose clock is set', function()
  local broker, clock, c

  local function start(...)
    -- AddressSanitizer wants to be loaded first.
    if Broker.is_sanitized() then
      pending 'no other clock under AddressSanitizer'
      return false
    end
    clock = Clock.new()
    broker = Broker.start { env = clock.env, args = { ... } }
    c = broker:connect()
    return true
  end

  after_each(function()
    if broker then broker:destroy() end
    if clock then clock:destroy() end
    broker, clock = nil, nil
  end)

  --- A message that has been held for so long that its deadline is in order.
  local function hold(queue, count)
    for i = 1, count do c:ok('PUB - ' .. queue, tostring(i)) end
    c:send(('GET %s max=%d\r\n'):format(queue, count))
    c:expect_line('OK ' .. count)
    for _ = 1, count do c:expect_msg() end
  end

  it('tells of a lease by its end, which moves with the clock', function()
    if not start('--fsync', 'no') then return end
    c:ok 'DECLARE queue q ack-timeout=1h'
    c:ok 'SUB q s notify-lease=1m'
    c:send 'PUB - q quiet 1\r\nx\r\n'
    c:expect_msg()
    for _, step in ipairs { HOUR, -HOUR } do
      clock:set(step)
      broker:expect_log('the clock was set ' .. (step > 0 and 'forward' or 'back'))
      c:expect_nothing()
    end
    c:send 'TOUCH 1 for=30s quiet\r\n'
    assert.is_true(tonumber((c:expect '^EVT lease s 1 (%d+)$')) <= 30000)
  end)

  it('takes no message from its consumers when it goes forward', function()
    if not start('--fsync', 'no') then return end
    c:ok 'DECLARE queue q ack-timeout=1m'
    c:ok 'DECLARE queue other ack-timeout=1m'
    hold('q', 5)
    -- In the ledger: held for longer than a moment.
    assert(wait.poll(function() return broker:redis_cli('ZCARD', broker:key('q', 'unack')) == '5' end))
    local before = tonumber((broker:redis_cli('ZRANGE', broker:key('q', 'unack'), 0, 0, 'WITHSCORES'):match '\n(%d+)$'))
    hold('other', 5)
    clock:set(HOUR)
    broker:expect_log 'the clock was set forward by 3%d%d%d s'
    assert.equal(5, c:stats('q').unacked)
    assert.equal(5, c:stats('other').unacked)
    -- Shown is since when by the new clock.
    local since = c:peek('q state=unacked')[1].holder.since
    assert.is_true(math.abs(since - before - HOUR * 1000) < 2000)
    c:send 'ACK 1-10\r\n'
    c:expect_line 'OK 10'
    assert.equal(0, c:stats('q').timed_out + c:stats('other').timed_out)
  end)

  it('still times out, and still ends a GET that waits, when it goes back', function()
    if not start('--store', 'none') then return end
    c:ok 'DECLARE queue q durable=0 ack-timeout=2s'
    c:ok 'DECLARE queue empty durable=0'
    hold('q', 3)
    local began = socket.gettime()
    local getter = broker:connect()
    getter:send 'GET empty wait=2s\r\n'
    clock:set(-HOUR)
    broker:expect_log 'the clock was set back by 3%d%d%d s'
    getter:expect_line 'OK 0'
    assert.is_true(socket.gettime() - began > 1.9)
    assert(wait.poll(function() return c:stats('q').timed_out == 1 end))
    c:send 'GET empty wait=1s\r\n'
    clock:set(HOUR)
    local again = socket.gettime()
    c:expect_line 'OK 0'
    assert.is_true(socket.gettime() - again > 0.8)
  end)

  it('goes on writing to Redis after a refusal when it goes back', function()
    if not start('--fsync', 'no') then return end
    c:ok 'DECLARE queue q'
    broker:redis_cli('CONFIG', 'SET', 'maxmemory', '1')
    assert.matches('^ERR store', c:request('PUB - q', 'refused'))
    clock:set(-HOUR)
    broker:redis_cli('CONFIG', 'SET', 'maxmemory', '0')
    assert(wait.poll(function() return c:request('PUB - q', 'taken'):find '^OK' end))
  end)

  it('overwrites nothing of what it confirmed before it was set back', function()
    if not start('--fsync', 'no') then return end
    c:ok 'DECLARE queue q'
    for run = 1, 3 do
      for i = 1, 50 do c:send(('PUB - q 4\r\n%d.%02d\r\n'):format(run, i)) end
      for _ = 1, 50 do c:expect '^OK %x+ 1$' end
      if run == 2 then broker:kill9_all() else broker:expect_clean_stop() end
      clock:set(-run * HOUR)
      broker:run()
      c = broker:connect()
    end
    c:send 'GET q max=1000 ack=auto\r\n'
    c:expect_line 'OK 150'
    for run = 1, 3 do
      for i = 1, 50 do assert.equal(('%d.%02d'):format(run, i), c:expect_msg().payload) end
    end
  end)
end)
