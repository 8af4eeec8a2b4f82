-- The broker's process stands still (SIGSTOP, a virtual machine that is paused) for an hour, while its
-- clients go on: what they sent lies in the sockets when it goes on.
local Broker = require 'support.broker'
local Clock = require 'support.clock'
local Http = require 'support.http'
local Stomp = require 'support.stomp'
local shell = require 'support.shell'
local wait = require 'support.wait'

local HOUR = 3600

-- AddressSanitizer wants to be loaded before the clock.
local describe_with_clock = Broker.is_sanitized() and pending or describe

describe_with_clock('a broker that stood still', function()
  local broker, clock, c

  local function start(...)
    clock = Clock.new()
    broker = Broker.start { env = clock.env, http = '127.0.0.1:0', args = { '--store', 'none', ... } }
    c = broker:connect()
  end

  after_each(function()
    broker:destroy()
    clock:destroy()
  end)

  --- Stand still for an hour, in which `act` happens.
  local function stand_still(act)
    local stat = ('/proc/%d/stat'):format(broker:pid())
    broker:signal 'STOP'
    assert(wait.poll(function() return shell.read_file(stat):match '^%d+ %b() (%a)' == 'T' end))
    act()
    clock:pass(HOUR)
    broker:signal 'CONT'
  end

  --- It looks at every connection from now on, as it does once a second.
  local function expect_look()
    local peer = broker:connect()
    peer:document 'HELLO heartbeat=1s'
    peer:expect '^EVT heartbeat$'
    peer:close()
  end

  it('hears the heartbeats of its clients before it judges them, and leaves them their locks', function()
    start()
    local stomp = Stomp.connect(broker, { ['heart-beat'] = '60000,60000' })
    c:document 'HELLO heartbeat=1m'
    local token = c:ok 'LOCK a ttl=100ms'
    stand_still(function()
      c:send '\r\n'
      stomp:send '\n'
    end)
    c:expect '^EVT heartbeat$'
    expect_look()
    c:expect_answer(('CHECK a %s'):format(token), 'OK')
    stomp:send '\n'
    stomp:ask('SEND', { destination = '/queue/a' }, 'x')
    assert.is_nil((broker:log():find 'no input'))
  end)

  it('takes an ACK that came before it ends a lease', function()
    start()
    c:ok 'DECLARE queue q durable=0 ack-timeout=1m'
    c:ok 'SUB q s'
    c:send 'PUB - q quiet 1\r\nx\r\n'
    c:expect_msg()
    stand_still(function() c:send 'ACK 1\r\n' end)
    c:expect_line 'OK 1'
    assert.equal(0, c:stats('q').timed_out)
  end)

  it('takes what was asked of a queue before it lets the queue expire', function()
    start()
    c:ok 'DECLARE queue q durable=0 expires=1m'
    stand_still(function() c:send 'SUB q s\r\n' end)
    c:expect_line 'OK'
  end)

  it('gives a request of HTTP that came in pieces its answer', function()
    start()
    local http = Http.connect(broker)
    http.client:send 'GET /health/live HTTP/1.1\r\nHost: 127.0.0.1\r\n'
    c:expect_nothing()
    stand_still(function() http.client:send '\r\n' end)
    assert.equal(200, http:answer().status)
    http:close()
  end)

  it('does not take it for idleness', function()
    start('--idle-timeout', '30s')
    stand_still(function() c:send 'PING\r\n' end)
    c:expect_line 'OK'
    expect_look()
    c:expect_nothing()
  end)

  it('does not take who reads late for one who does not read', function()
    start('--write-timeout', '30s')
    c:ok 'DECLARE queue q durable=0'
    c:ok 'SUB q s ack=auto'
    local publisher, payload = broker:connect(), ('x'):rep(1 << 20)
    -- Until the socket is full.
    repeat publisher:ok('PUB - q', payload) until publisher:stats('q').ready > 1
    expect_look()
    stand_still(function()
      assert(c:take(function(input) return #input > 1 << 20 and input, #input + 1 end))
    end)
    expect_look()
    assert.is_nil((broker:log():find 'write timeout'))
  end)

  it('still cuts a client that sent nothing', function()
    start()
    c:document 'HELLO heartbeat=1m'
    stand_still(function() end)
    c:drain_until '^EVT closed busy no input for two heartbeats$'
    c:expect_closed()
  end)
end)
