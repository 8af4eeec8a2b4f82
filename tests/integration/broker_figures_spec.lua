-- What STATS says of the broker itself: its loop, its process, its connections, Redis.
local Broker = require 'support.broker'
local Certs = require 'support.certs'
local Client = require 'support.client'
local Stomp = require 'support.stomp'
local wait = require 'support.wait'

local function count_of(steps)
  local sum = 0
  for _, step in ipairs(steps) do sum = sum + step.count end
  return sum
end

describe('the figures of a broker', function()
  local certs, broker, c

  setup(function()
    certs = Certs.make()
    broker = Broker.start {
      certs = certs, listen = { '127.0.0.1:0', 'tls:127.0.0.1:0' }, args = { '--fsync', 'no' },
    }
    c = broker:connect()
  end)
  teardown(function()
    c:close()
    broker:expect_clean_stop()
    certs:destroy()
  end)

  it('count the turns of its loop, and how long they take', function()
    local before = c:document('STATS').loop
    for _ = 1, 20 do c:ok 'PING' end
    local after = c:document('STATS').loop
    assert.is_true(after.count >= before.count + 20)
    assert.equal(after.count, count_of(after.steps))
    assert.is_true(after.sum_us > before.sum_us and after.max_us <= after.sum_us)
  end)

  it('count what Redis is sent, and how long it takes', function()
    local before = c:document('STATS').store
    c:ok 'DECLARE queue q'
    for i = 1, 10 do c:ok('PUB - q', 'message ' .. i) end
    local after = c:document('STATS').store
    assert.is_true(after.round_trip.count >= before.round_trip.count + 10)
    assert.is_true(after.commands >= before.commands + 30)
    assert.equal(10, after.changes.sum - before.changes.sum)
    assert.equal(after.changes.count, count_of(after.changes.steps))
    assert.is_true(after.round_trip.max_us > 0)
    assert.same({}, after.refused_requests)
    assert(wait.poll(function() return (c:document('STATS').store.memory_bytes or 0) > 100000 end))
  end)

  it('count connections by their protocol, and their bytes', function()
    local before = c:document('STATS').net
    assert.same({ line = 1 }, before.open)
    local stomp = Stomp.connect(broker)
    local other = broker:connect()
    other:ok 'PING'
    local after = c:document('STATS').net
    assert.same({ line = 2, stomp = 1 }, after.open)
    assert.equal(2, after.accepted - before.accepted)
    assert.is_true(after.bytes_in > before.bytes_in + 6 and after.bytes_out > before.bytes_out + 4)
    other:close()
    stomp:close()
    assert(wait.poll(function()
      local open = c:document('STATS').net.open
      return open.line == 1 and open.stomp == 0
    end))
  end)

  it('count handshakes of TLS, and what fails', function()
    local before = c:document('STATS').net
    local secure = broker:connect(2)
    secure:ok 'PING'
    secure:close()
    local plain = Client.connect(broker.addresses[2])
    plain:send 'PING\r\n'
    plain:expect_line 'ERR syntax this port speaks TLS: connect with tides://HOST:PORT'
    plain:close()
    local after = c:document('STATS').net
    assert.equal(1, after.tls_handshakes - before.tls_handshakes)
    assert.equal(1, after.tls_failures - before.tls_failures)
  end)

  it('tell what the process has of its machine', function()
    local process = c:document('STATS').process
    assert.is_true(process.resident_bytes > 1000000 and process.resident_bytes < process.virtual_bytes)
    assert.is_true(process.cpu_ms >= 0 and process.fds_max >= 256)
    assert.is_true(process.fds == nil or process.fds > 5)
  end)
end)

describe('a broker with a limit of connections', function()
  it('counts those that it refuses', function()
    local broker = Broker.start { args = { '--fsync', 'no', '--max-connections', '1' } }
    local c = broker:connect()
    local second = Client.connect(broker.address)
    second:expect '^ERR limit the limit of 1 connections'
    second:expect_closed()
    assert.equal(1, c:document('STATS').net.refused)
    c:close()
    broker:expect_clean_stop()
  end)
end)
