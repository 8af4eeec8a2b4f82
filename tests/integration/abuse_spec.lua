-- Those who mean no good: they send nothing, or little, or too much, and never log in.
local Broker = require 'support.broker'
local shell = require 'support.shell'
local socket = require 'socket'
local users = require 'support.users'
local wait = require 'support.wait'

local ALL = { configure = '.*', write = '.*', read = '.*' }

local function start(options)
  options.redis, options.stopped = {}, true
  local broker = Broker.start(options)
  users.restore(broker.redis, {
    admin = { tags = { 'admin' }, vhosts = { ['/'] = ALL } }, bob = { vhosts = { ['/'] = ALL } },
    eve = {}, mallory = { vhosts = { ['/'] = ALL } },
  })
  broker:run()
  return broker
end

local function stop(broker)
  broker:expect_clean_stop()
  broker:destroy()
end

--- Send the text byte by byte, again and again, for as long as the broker takes it.
local function trickle(c, text)
  local sent = 0
  assert.is_truthy(wait.poll(function()
    local at = sent % #text + 1
    local last, err = c.sock:send(text:sub(at, at))
    sent = sent + (last and 1 or 0)
    -- The broker answers before it closes; then the rest is thrown away.
    return (err and err ~= 'timeout') or #socket.select({ c.sock }, nil, 0) > 0
  end))
  return sent
end

describe('ten thousand connections that never log in', function()
  it('keep nobody out who has a password', function()
    local broker = start {}
    local host, port = broker.address:match '^(.*):(%d+)$'
    local files = tonumber(shell.line 'ulimit -n') or math.huge
    local count = math.min(10000, files - 200)
    local silent, reserved = {}, {}
    finally(function()
      for _, sock in ipairs(silent) do sock:close() end
    end)
    -- select() takes low descriptors alone.
    for i = 1, 8 do reserved[i] = assert(io.open '/dev/null') end
    for i = 1, count do silent[i] = assert(socket.connect(host, tonumber(port))) end
    for _, file in ipairs(reserved) do file:close() end
    local c = users.connect(broker, 'bob')
    c:ok 'DECLARE queue q'
    c:ok('PUB - q', 'x')
    assert.equal('x', c:get 'q'[1].payload)
    local admin = users.connect(broker, 'admin')
    -- A quarter of --max-connections, which the limit of open files lowers.
    local max = tonumber(broker:log():match 'leaves room for (%d+)' or 20000)
    assert.is_truthy(wait.poll(function()
      return admin:document 'STATS'.connections <= math.min(count, (max + 3) // 4) + 2
    end))
    c:expect_nothing()
    c:close()
    admin:close()
    stop(broker)
  end)
end)

describe('connections that have not logged in', function()
  it('are at most --max-unauthenticated: the oldest is told so and ended', function()
    local broker = start { args = { '--max-unauthenticated', '2', '--login-timeout', '0' } }
    local admin = users.connect(broker, 'admin')
    local a, b, c = users.stranger(broker), users.stranger(broker), users.stranger(broker)
    a:expect_line 'EVT closed limit more than 2 connections have not logged in (--max-unauthenticated)'
    a:expect_closed()
    -- Who logs in makes room.
    b:document 'HELLO user=bob pass=secret'
    local d = users.stranger(broker)
    for _, peer in ipairs { admin, b, c, d } do peer:expect_nothing() end
    local e = users.stranger(broker)
    c:expect_line 'EVT closed limit more than 2 connections have not logged in (--max-unauthenticated)'
    for _, peer in ipairs { admin, b, d, e } do
      peer:expect_nothing()
      peer:close()
    end
    c:close()
    a:close()
    stop(broker)
  end)

  it('count when TLS is not agreed upon, too, whoever must log in', function()
    local certs = require 'support.certs'.make()
    local args = { '--max-unauthenticated', '2' }
    local broker = Broker.start { args = args, certs = certs, listen = { 'tls:127.0.0.1:0' } }
    local Client = require 'support.client'
    local silent = {}
    for i = 1, 3 do silent[i] = Client.connect(broker.addresses[1]) end
    silent[1]:expect_closed()
    -- Who goes on is none of them any more.
    local c = broker:connect()
    c:expect_nothing()
    silent[2]:expect_closed()
    local d = broker:connect()
    d:expect_nothing()
    silent[3]:expect_closed()
    for _, peer in ipairs { c, d } do
      peer:expect_nothing()
      peer:close()
    end
    broker:expect_clean_stop()
    certs:destroy()
  end)

  it('are not limited while nobody has to log in', function()
    local broker = Broker.start { args = { '--max-unauthenticated', '1', '--login-timeout', '300ms' } }
    local a, b, c = broker:connect(), broker:connect(), broker:connect()
    -- The broker has looked at them after that time.
    c:send 'HELLO heartbeat=1s\r\n'
    c:expect_data()
    for _ = 1, 2 do c:expect_line 'EVT heartbeat':expect_nothing() end
    for _, peer in ipairs { a, b } do
      peer:expect_nothing()
      peer:close()
    end
    c:close()
    broker:expect_clean_stop()
  end)

  describe('have a time to', function()
    local broker, admin, certs

    setup(function()
      certs = require 'support.certs'.make()
      broker = start {
        certs = certs, listen = { '127.0.0.1:0', 'tls:127.0.0.1:0' },
        args = { '--login-timeout', '500ms', '--handshake-timeout', '500ms' },
      }
      admin = users.connect(broker, 'admin')
    end)
    teardown(function()
      -- Who has logged in was never at stake.
      admin:expect_nothing()
      admin:close()
      stop(broker)
      certs:destroy()
    end)

    local LATE = 'EVT closed denied nobody logged in within 0.5 s (--login-timeout)'

    it('when they say nothing', function()
      local c = users.stranger(broker)
      c:expect_line(LATE)
      c:expect_closed()
    end)

    it('when HELLO comes a byte at a time', function()
      local c = users.stranger(broker)
      assert.is_true(trickle(c, 'HELLO user=bob pass=') > 1)
      c:expect_line(LATE)
    end)

    it('when they ask for what needs no login', function()
      local c = users.stranger(broker)
      trickle(c, 'PING\r\n')
      c:drain_until '^EVT closed denied nobody logged in'
    end)

    it('when a STOMP frame comes a byte at a time', function()
      local c = users.stranger(broker)
      c:send 'CONNECT\naccept-version:1.2\n'
      trickle(c, 'x:y\n')
      assert.is_truthy(wait.poll(function()
        return c.sock:receive '*l' == 'ERROR'
      end))
    end)

    it('when TLS is agreed upon', function()
      local c = broker:connect(2)
      c:expect_line(LATE)
    end)

    it('to agree upon TLS', function()
      local c = require 'support.client'.connect(broker.addresses[2])
      trickle(c, '\22\3\1\2\0\1\0\1\252\3\3' .. ('\0'):rep(400))
      c:expect_closed()
    end)

    it('when the password was wrong', function()
      local c = users.stranger(broker)
      c:expect_answer('HELLO user=eve pass=wrong', 'ERR denied the user or the password is wrong')
      c:expect_line(LATE)
    end)
  end)
end)

describe('a storm of logins', function()
  it('with wrong passwords keeps nobody out', function()
    local broker = start { args = { '--login-timeout', '1s' } }
    local storm = {}
    for i = 1, 200 do
      storm[i] = users.stranger(broker)
      storm[i]:send 'HELLO user=eve pass=wrong\r\n'
    end
    -- He has not been here before: his password is hashed.
    local bob = users.connect(broker, 'bob')
    bob:ok 'DECLARE queue q'
    local answered = 0
    for _, c in ipairs(storm) do
      answered = answered + (#socket.select({ c.sock }, nil, 0) > 0 and 1 or 0)
      c:close()
    end
    assert.is_true(answered < 20)
    bob:expect_nothing()
    local admin = users.connect(broker, 'admin')
    assert.is_truthy(wait.poll(function() return admin:document 'STATS'.connections == 2 end))
    bob:close()
    admin:close()
    stop(broker)
  end)
end)

describe('a user that is deleted while its connections work', function()
  it('has none a second later, and what they held is there for others', function()
    local broker = start {}
    local admin = users.connect(broker, 'admin')
    admin:ok 'DECLARE queue q'
    admin:ok 'DECLARE queue empty'
    for i = 1, 100 do admin:ok('PUB - q', tostring(i)) end
    local consumers, publishers = {}, {}
    for i = 1, 10 do
      consumers[i] = users.connect(broker, 'mallory')
      consumers[i]:send 'SUB q s prefetch=10\r\n'
      consumers[i]:expect_line 'OK'
      publishers[i] = users.connect(broker, 'mallory')
      -- The rest of a payload never comes.
      publishers[i]:send(('PUB - other 1\r\nx\r\n'):rep(100) .. 'PUB - q 100000\r\nhalf')
    end
    local waiting = users.connect(broker, 'mallory')
    waiting:send 'GET empty wait=1h\r\n'
    admin:ok 'USER delete mallory'
    -- Long before the GET would end.
    assert.is_true(wait.poll(function() return #admin:document 'LIST connections' == 1 end))
    for _, list in ipairs { consumers, publishers } do
      for _, c in ipairs(list) do
        c:drain_until "^EVT closed denied user 'mallory' was deleted$"
        c:expect_closed()
        c:close()
      end
    end
    waiting:close()
    assert.is_truthy(wait.poll(function() return admin:stats 'q'.ready == 100 end))
    admin:close()
    stop(broker)
  end)
end)

describe('half of a request', function()
  it('holds up nobody else, in a line, a payload and a frame', function()
    local broker = Broker.start { args = { '--fsync', 'no' } }
    local halves = {}
    for i, text in ipairs {
      'PU', 'PUB - q h:a=', 'PUB - q 100\r\nhalf', 'HELLO user=', 'CONNECT\naccept', 'SEND\n\n', 'STOMP\n\nbody',
      'CONNECT\naccept-version:1.2\n\n\0SEND\ndestination:/queue/q\n\nhalf', '\22\3\1\2\0\1\0',
      '@1 OPEN\r\n@1 PUB - q 7\r\n', 'GET / HTTP/1.1\r\nHost: x\r\n', ('x'):rep(65535),
    } do
      halves[i] = broker:connect():send(text)
    end
    local c = broker:connect()
    c:ok 'DECLARE queue other'
    c:ok('PUB - other', 'x')
    assert.equal(1, #c:get 'other ack=auto')
    for _, half in ipairs(halves) do half:close() end
    assert.is_truthy(wait.poll(function() return c:document 'STATS'.connections == 1 end))
    c:close()
    broker:expect_clean_stop()
  end)
end)
