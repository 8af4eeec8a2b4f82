-- Payloads that are on their way are memory too.
local Broker = require 'support.broker'
local shell = require 'support.shell'
local wait = require 'support.wait'

local MIB = 1024 * 1024

-- AddressSanitizer keeps what was freed: its memory says nothing of ours.
local is_sanitized = Broker.is_sanitized()

describe('half a payload', function()
  local broker, admin

  local function start(...)
    broker = Broker.start { args = { '--store', 'none', ... } }
    admin = broker:connect()
  end

  after_each(function()
    broker:destroy()
  end)

  local function stats()
    return admin:document 'STATS'
  end

  local function wait_blocked(is_blocked)
    return assert(wait.poll(function()
      local s = stats()
      return s.blocked == is_blocked and s
    end))
  end

  it('counts with what has come of it', function()
    start('--max-memory', '32M')
    local clients = {}
    for i = 1, 70 do
      clients[i] = broker:connect()
      clients[i]:send('PUB - nobody ' .. 16 * MIB .. '\r\n' .. ('x'):rep(1000))
    end
    -- Each has been read.
    assert(wait.poll(function() return stats().memory_bytes >= 70 * 1000 end))
    assert.is_true(stats().memory_bytes < MIB)
    assert.is_false(stats().blocked)
    for _ = 1, 10 do admin:ok('PUB - nobody', 'y') end
  end)

  it('holds back others when there is too much of it, and comes to its end', function()
    start('--max-memory', '32M')
    local clients = {}
    local head = 'PUB - nobody ' .. 16 * MIB .. '\r\n'
    local body = ('x'):rep(16 * MIB) .. '\r\n'
    local sent, done, count = {}, 0, 20
    for i = 1, count do
      clients[i] = broker:connect()
      clients[i]:send(head .. body:sub(1, 2 * MIB))
      clients[i].sock:settimeout(0)
    end
    wait_blocked(true)
    local other = broker:connect()
    other:send 'PUB - nobody 1\r\na\r\n'
    other:expect '^EVT blocked messages fill %d+ MiB of memory$'
    -- Some go on at a time. None waits for another to send, which may be held back still.
    assert(wait.poll(function()
      for i = 1, count do
        local c, from = clients[i], (sent[i] or 2 * MIB) + 1
        if from <= #body then
          local last, _, partial = c.sock:send(body, from, math.min(#body, from + MIB))
          sent[i] = last or partial or sent[i]
        end
        local line = c:read_line(0)
        assert.is_truthy(not line or line:find '^OK %x+ 0$' or line:find '^EVT u?n?blocked', line)
        if line and line:find '^OK' then done = done + 1 end
      end
      return done == count
    end, 60))
    other:drain_until '^OK %x+ 0$'
    assert.equal(0, wait_blocked(false).memory_bytes)
    local peak = shell.read_file(('/proc/%d/status'):format(broker:pid())):match 'VmHWM:%s+(%d+) kB'
    assert.is_true(tonumber(peak) < 160 * 1024 or is_sanitized, peak)
  end)

  it('of any allowed length comes to its end, however little memory is allowed', function()
    start('--max-memory', '1M')
    local c = broker:connect()
    admin:ok 'DECLARE queue q durable=0'
    c:send('PUB - q ' .. 16 * MIB .. '\r\n' .. ('x'):rep(2 * MIB))
    local s = wait_blocked(true)
    assert.is_true(s.memory_bytes < 3 * MIB)
    c:send(('z'):rep(14 * MIB) .. '\r\nPUB - q 1\r\n')
    c:drain_until '^OK %x+ 1$'
    assert.equal(16 * MIB, #admin:get('q ack=auto')[1].payload)
    c:drain_until '^EVT unblocked$'
    c:send 'a\r\n'
    c:expect '^OK %x+ 1$'
  end)

  it('is forgotten with its connection', function()
    start('--max-memory', '1M')
    local c, other = broker:connect(), broker:connect()
    c:send('PUB - q ' .. 16 * MIB .. '\r\n' .. ('x'):rep(2 * MIB))
    wait_blocked(true)
    other:send 'PING\r\nPUB - q 1\r\na\r\nPING\r\n'
    other:expect_line 'OK'
    other:expect '^EVT blocked'
    c:close()
    other:expect_line 'EVT unblocked'
    other:expect '^OK %x+ 0$'
    other:expect_line 'OK'
    assert.equal(0, wait_blocked(false).memory_bytes)
  end)

  it('that does not go on is given up when others wait', function()
    start('--max-memory', '1M', '--write-timeout', '1s')
    local c, other = broker:connect(), broker:connect()
    c:send('PUB - q ' .. 16 * MIB .. '\r\n' .. ('x'):rep(2 * MIB))
    wait_blocked(true)
    other:send 'PUB - q 1\r\na\r\n'
    other:expect '^EVT blocked'
    c:expect_line 'EVT closed busy the rest of a payload did not arrive'
    other:expect_line 'EVT unblocked'
    other:expect '^OK %x+ 0$'
  end)

  it('that comes a byte at a time is given up too when others wait', function()
    start('--max-memory', '1M', '--write-timeout', '1s')
    local c, other = broker:connect(), broker:connect()
    c:send('PUB - q ' .. 16 * MIB .. '\r\n' .. ('x'):rep(2 * MIB))
    wait_blocked(true)
    other:send 'PUB - q 1\r\na\r\n'
    other:expect '^EVT blocked'
    assert(wait.poll(function()
      c.sock:send 'x'
      local line = c:read_line(0)
      assert.is_truthy(not line or line == 'EVT closed busy the rest of a payload did not arrive', line)
      return line
    end, 20))
    other:expect_line 'EVT unblocked'
    other:expect '^OK %x+ 0$'
  end)
end)

describe('half a line', function()
  it('costs the memory that is allowed for all of them, and the oldest go', function()
    local broker = Broker.start { args = { '--store', 'none', '--max-memory', '32M' } }
    local busy, clients = broker:connect(), {}
    local line = 'PUB - nobody h:x=' .. ('x'):rep(60000)
    busy:send(line)
    for i = 1, 100 do
      clients[i] = broker:connect()
      clients[i]:send(line)
    end
    clients[1]:expect_line 'EVT closed busy the rest of a line did not arrive'
    clients[1]:expect_closed()
    -- The last ones may finish theirs.
    clients[100]:send ' 1\r\nx\r\n'
    clients[100]:expect '^OK %x+ 0$'
    broker:expect_memory_below(24 * MIB)
    broker:expect_clean_stop()
  end)

  it('is not counted against a client that goes on', function()
    local broker = Broker.start { args = { '--store', 'none', '--max-memory', '1M' } }
    local clients = {}
    local payload = ('y'):rep(30000)
    local c = broker:connect()
    for i = 1, 40 do
      c:send(('PING\r\nPUB - nobody h:x=%s'):format(payload))
      c:expect_line 'OK'
      clients[i] = broker:connect()
      clients[i]:send('PUB - nobody h:x=' .. ('x'):rep(60000))
      clients[i]:send ''
      c:send(' 1\r\ny\r\n')
      c:expect '^OK %x+ 0$'
    end
    broker:expect_clean_stop()
  end)
end)
