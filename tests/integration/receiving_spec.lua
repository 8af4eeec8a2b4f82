-- Payloads that are on their way are memory too.
local Broker = require 'support.broker'
local wait = require 'support.wait'

local MIB = 1024 * 1024

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

  it('counts, and holds back who would send another one', function()
    start('--max-memory', '32M')
    local clients = {}
    local half = ('x'):rep(1000)
    for i = 1, 20 do
      clients[i] = broker:connect()
      clients[i]:send('PUB - nobody ' .. 16 * MIB .. '\r\n' .. half)
    end
    local s = wait_blocked(true)
    assert.is_true(s.memory_bytes > 32 * MIB and s.memory_bytes < 52 * MIB, s.memory_bytes)
    -- Three are being received, and go on to their end; the others were told to wait.
    local rest = ('y'):rep(16 * MIB - 1000) .. '\r\n'
    local told = 0
    for i = 4, 20 do
      clients[i]:expect '^EVT blocked messages fill %d+ MiB of memory$'
      told = told + 1
    end
    assert.equal(17, told)
    for i = 1, 3 do
      clients[i]:send(rest)
      assert.matches('^OK %x+ 0$', clients[i]:drain_until '^OK .*')
    end
    -- Now three more begin, and the same again: each has its turn. None waits for
    -- another to send, which may be held back still.
    local sent, done = {}, {}
    assert(wait.poll(function()
      for i = 4, 20 do
        local c, from = clients[i], sent[i] or 1
        if from <= #rest then
          local last, _, partial = c.sock:send(rest, from, math.min(#rest, from + MIB))
          sent[i] = (last or partial or from - 1) + 1
        end
        local line = c:read_line(0)
        if line and line:find '^OK %x+ 0$' then
          done[#done + 1] = i
        else
          assert.is_truthy(not line or line:find '^EVT u?n?blocked', line)
        end
      end
      return #done == 17
    end, 30))
    assert.equal(0, wait_blocked(false).memory_bytes)
  end)

  it('of any allowed length comes to its end, however little memory is allowed', function()
    start('--max-memory', '1M')
    local c = broker:connect()
    admin:ok 'DECLARE queue q durable=0'
    c:send('PUB - q ' .. 16 * MIB .. '\r\n')
    local s = wait_blocked(true)
    assert.is_true(s.memory_bytes > 16 * MIB)
    c:send(('z'):rep(16 * MIB) .. '\r\nPUB - q 1\r\n')
    c:drain_until '^OK %x+ 1$'
    assert.equal(16 * MIB, #admin:get('q ack=auto')[1].payload)
    c:drain_until '^EVT unblocked$'
    c:send 'a\r\n'
    c:expect '^OK %x+ 1$'
  end)

  it('is forgotten with its connection', function()
    start('--max-memory', '1M')
    local c, other = broker:connect(), broker:connect()
    c:send('PUB - q ' .. 16 * MIB .. '\r\n')
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
    c:send('PUB - q ' .. 16 * MIB .. '\r\nhalf')
    wait_blocked(true)
    other:send 'PUB - q 1\r\na\r\n'
    other:expect '^EVT blocked'
    c:expect_line 'EVT closed busy the rest of a payload did not arrive'
    other:expect_line 'EVT unblocked'
    other:expect '^OK %x+ 0$'
  end)
end)
