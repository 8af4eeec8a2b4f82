-- Payloads that are on their way are memory too. They have a quarter of --max-memory.
local Broker = require 'support.broker'
local Http = require 'support.http'
local Stomp = require 'support.stomp'
local Websocket = require 'support.websocket'
local shell = require 'support.shell'
local wait = require 'support.wait'

local MIB = 1024 * 1024
local GIVEN_UP = 'EVT closed busy the rest of a payload did not arrive'

-- AddressSanitizer keeps what was freed: its memory says nothing of ours.
local is_sanitized = Broker.is_sanitized()

--- Send as much of c.text as the socket takes.
local function push(c)
  c.sent = c.sent or 0
  if c.sent == #c.text then return end
  c.sock:settimeout(0)
  local last, _, partial = c.sock:send(c.text, c.sent + 1, math.min(#c.text, c.sent + MIB))
  c.sent = last or partial or c.sent
end

--- Send the text of each client, until each has had a line like this one; no other line but these may come.
local function push_until(clients, wanted, allowed)
  local done, count = {}, 0
  assert(wait.poll(function()
    for _, c in ipairs(clients) do
      push(c)
      local line = not done[c] and c:read_line(0)
      if line and line:find(wanted) then
        done[c], count = true, count + 1
      elseif line then
        assert.is_truthy(allowed and line:find(allowed), line)
      end
    end
    return count == #clients
  end, 60), ('%d of %d got %s'):format(count, #clients, wanted))
end

describe('half a payload', function()
  local broker, admin

  local function start(...)
    broker = Broker.start { args = { ... }, http = '127.0.0.1:0' }
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

  local function wait_memory(bytes)
    return assert(wait.poll(function() return stats().memory_bytes >= bytes end))
  end

  --- The broker reads from all connections but `count`.
  local function wait_held_back(count)
    assert(wait.poll(function()
      local held = 0
      for _, row in ipairs(admin:document 'LIST connections') do held = held + (row.held_back and 1 or 0) end
      return held == count
    end))
  end

  --- A client that has sent the beginning of a payload.
  local function begin(words, len, part)
    return broker:connect():send(('PUB %s %d\r\n%s'):format(words, len, ('x'):rep(part)))
  end

  --- As many as always have a place, and hold it.
  local function take_places()
    local clients = {}
    for i = 1, 4 do clients[i] = begin('- q', 16 * MIB, 500000) end
    wait_memory(4 * 500000)
    return clients
  end

  --- One that is to send a whole one: push.
  local function publisher(words, len)
    local c = broker:connect()
    c.text = ('PUB %s %d\r\n%s\r\n'):format(words, len, ('x'):rep(len))
    return c
  end

  --- Messages that nobody reads are in memory, and no consumer has come yet.
  local function fill_memory()
    admin:ok 'DECLARE queue full durable=0'
    local c = broker:connect()
    c:send(('PUB - full quiet 60000\r\n%s\r\n'):format(('x'):rep(60000)):rep(18))
    wait_blocked(true)
  end

  it('counts with what has come of it', function()
    start('--store', 'none', '--max-memory', '32M')
    local clients = {}
    for i = 1, 70 do clients[i] = begin('- nobody', 16 * MIB, 1000) end
    -- Each has been read.
    wait_memory(70 * 1000)
    assert.is_true(stats().memory_bytes < MIB)
    for _ = 1, 10 do admin:ok('PUB - nobody', 'y') end
    -- None of them has a place, so that a long one needs to wait for none.
    push_until({ publisher('- nobody', 3 * MIB) }, '^OK %x+ 0$')
    for _, c in ipairs(clients) do c:close() end
    assert(wait.poll(function() return stats().memory_bytes == 0 end))
  end)

  it('waits for its turn when there is too much of it, and comes to its end', function()
    start('--store', 'none', '--max-memory', '32M')
    local clients, other = {}, broker:connect()
    for i = 1, 20 do
      clients[i] = publisher('- nobody', 16 * MIB)
      for _ = 1, 4 do push(clients[i]) end
    end
    wait_memory(4 * MIB)
    -- Who sends all of a message waits for none of them.
    other:send(('PUB - nobody 40000\r\n%s\r\n'):format(('y'):rep(40000)))
    other:expect '^OK %x+ 0$'
    assert.is_false(stats().blocked)
    push_until(clients, '^OK %x+ 0$')
    assert.equal(0, stats().memory_bytes)
    local peak = shell.read_file(('/proc/%d/status'):format(broker:pid())):match 'VmHWM:%s+(%d+) kB'
    assert.is_true(tonumber(peak) < 96 * 1024 or is_sanitized, peak)
  end)

  it('of any allowed length comes to its end, however little memory is allowed', function()
    start('--store', 'none', '--max-memory', '1M')
    local c = broker:connect()
    admin:ok 'DECLARE queue q durable=0'
    c:send('PUB - q ' .. 16 * MIB .. '\r\n' .. ('x'):rep(2 * MIB))
    wait_memory(2 * MIB)
    assert.is_true(stats().memory_bytes < 3 * MIB)
    c:send(('z'):rep(14 * MIB) .. '\r\nPUB - q 1\r\n')
    c:drain_until '^OK %x+ 1$'
    assert.equal(16 * MIB, #admin:get('q ack=auto')[1].payload)
    c:drain_until '^EVT unblocked$'
    c:send 'a\r\n'
    c:expect '^OK %x+ 1$'
  end)

  it('is forgotten with its connection, and the next one goes on', function()
    start('--store', 'none', '--max-memory', '1M')
    local clients, other = take_places(), publisher('- q', 300000)
    push(other)
    wait_held_back(1)
    clients[1]:close()
    push_until({ other }, '^OK %x+ 0$')
    for i = 2, 4 do clients[i]:close() end
    assert(wait.poll(function() return stats().memory_bytes == 0 end))
  end)

  it('that does not go on is given up when others wait', function()
    start('--store', 'none', '--max-memory', '1M', '--write-timeout', '1s')
    local clients, other = take_places(), publisher('- q', 300000)
    push(other)
    for _, c in ipairs(clients) do c:expect_line(GIVEN_UP) end
    push_until({ other }, '^OK %x+ 0$')
  end)

  it('that comes a byte at a time is given up too when others wait', function()
    start('--store', 'none', '--max-memory', '1M', '--write-timeout', '1s')
    local c, other = take_places()[1], publisher('- q', 300000)
    push(other)
    assert(wait.poll(function()
      c.sock:send 'x'
      local line = c:read_line(0)
      assert.is_truthy(not line or line == GIVEN_UP, line)
      return line
    end, 20))
    push_until({ other }, '^OK %x+ 0$')
  end)

  it('that does not go on is given up with all others of its kind, though none of them is read', function()
    start('--store', 'none', '--max-memory', '1M', '--write-timeout', '2s')
    local clients, waiting, count = {}, {}, 0
    -- Some have sent more than was read of them.
    for i = 1, 40 do clients[i] = begin('- q', 16 * MIB, 17000) end
    for i = 41, 48 do clients[i] = begin('- q', 16 * MIB, 100000) end
    for i = 1, 4 do
      waiting[i] = publisher('- q', 300000)
      push(waiting[i])
    end
    -- Four have places. Those who would send more wait for one, whatever time that takes.
    assert(wait.poll(function()
      for _, c in ipairs(clients) do
        local line = not c.is_given_up and c:read_line(0)
        assert.is_truthy(not line or line == GIVEN_UP, line)
        c.is_given_up = c.is_given_up or line
        count = count + (line and 1 or 0)
      end
      return count == #clients
    end, 20), 'given up: ' .. count)
    push_until(waiting, '^OK %x+ 0$')
  end)

  it('waits while messages fill the memory, and is not given up for that', function()
    start('--store', 'none', '--max-memory', '1M', '--write-timeout', '1s')
    admin:ok 'DECLARE queue q durable=0'
    local willing = begin('- q', 300000, 1000)
    wait_memory(1000)
    fill_memory()
    willing:send(('x'):rep(50000))
    -- The time of each of these begins when that of the first is running: a transaction is not held back.
    for _ = 1, 2 do
      local silent = broker:connect()
      silent:ok 'BEGIN'
      silent:send('PUB - q 300000\r\n' .. ('x'):rep(1000))
      silent:drain_until('^' .. GIVEN_UP .. '$')
    end
    admin:ok 'PURGE full'
    willing:send(('x'):rep(249000) .. '\r\n')
    willing:expect '^OK %x+ 1$'
  end)

  it('goes on as soon as consumers free memory', function()
    start('--store', 'none', '--max-memory', '2M')
    admin:ok 'DECLARE queue q durable=0'
    local clients, got = {}, 0
    for i = 1, 12 do clients[i] = publisher('- q', MIB) end
    assert(wait.poll(function()
      for _, c in ipairs(clients) do push(c) end
      got = got + (stats().memory_bytes > 2 * MIB and #admin:get('q ack=auto') or 0)
      return got >= 9
    end, 60))
    admin:ok 'PURGE q'
    push_until(clients, '^OK %x+ 1$', '^EVT u?n?blocked')
  end)

  it('of messages that Redis has costs time alone', function()
    start('--fsync', 'no', '--max-memory', '16M')
    admin:ok 'DECLARE queue q'
    local clients, other = {}, broker:connect()
    for i = 1, 150 do
      clients[i] = publisher('- q', MIB)
      push(clients[i])
    end
    other:send 'PUB - other 16\r\n0123456789abcdef\r\n'
    push_until(clients, '^OK %x+ 1$', '^EVT u?n?blocked')
    other:drain_until '^OK %x+ 0$'
    assert.equal(150, admin:stats 'q'.ready)
  end)

  it('of a transaction goes on while messages fill the memory, since its end may free some', function()
    start('--store', 'none', '--max-memory', '1M')
    admin:ok 'DECLARE queue q durable=0'
    local c = broker:connect()
    c:ok 'BEGIN'
    fill_memory()
    c:send('PUB - q 300000\r\n' .. ('x'):rep(1000))
    wait_memory(MIB + 2000)
    c:send(('x'):rep(299000) .. '\r\n')
    c:drain_until '^OK queued$'
    c:ok 'COMMIT'
  end)

  describe('and a body', function()
    local PATH = '/api/vhosts/%2F/exchanges/-/publish'
    local payload = ('y'):rep(200000)

    --- Each door, with what sends it all of a message, and what waits for its confirm.
    local doors = {
      ['of HTTP'] = function()
        local http = Http.connect(broker)
        http:send('POST', PATH, { key = 'q', payload = payload })
        return function() assert.equal(200, http:answer().status) end
      end,
      ['of HTTP in chunks'] = function()
        local http, body = Http.connect(broker), ('{"key": "q", "payload": "%s"}'):format(payload)
        http:send('POST', PATH, nil, { ['Transfer-Encoding'] = 'chunked', ['Content-Type'] = 'application/json' })
        http.client:send(('%x\r\n%s\r\n0\r\n\r\n'):format(#body, body))
        return function() assert.equal(200, http:answer().status) end
      end,
      ['of STOMP'] = function()
        local c = Stomp.connect(broker)
        c:frame('SEND', { destination = '/queue/q', receipt = 'r', ['content-length'] = #payload }, payload)
        return function() c:expect 'RECEIPT' end
      end,
      ['of STOMP without a length'] = function()
        local c = Stomp.connect(broker)
        c:frame('SEND', { destination = '/queue/q', receipt = 'r' }, payload)
        return function() c:expect 'RECEIPT' end
      end,
      ['of a WebSocket'] = function()
        local ws = Websocket.connect(broker)
        ws:send 'CONNECT\naccept-version:1.2\nhost:/\n\n\0'
        ws:expect '^CONNECTED\n'
        ws:send('SEND\ndestination:/queue/q\nreceipt:r\n\n' .. payload .. '\0')
        return function() ws:expect '^RECEIPT\n' end
      end,
    }

    for name, send in pairs(doors) do
      it(name .. ' wait for the same memory, and go on when it is there', function()
        start('--store', 'none', '--max-memory', '1M')
        admin:ok 'DECLARE queue q'
        local clients = take_places()
        local finish = send()
        wait_held_back(1)
        assert.is_true(stats().memory_bytes < 4 * 500000 + 150000)
        clients[1]:close()
        finish()
      end)
    end

    it('of HTTP is read while messages fill the memory, and refused', function()
      start('--store', 'none', '--max-memory', '1M')
      fill_memory()
      assert.matches('held back', Http.connect(broker):expect_error(503, 'busy', 'POST', PATH,
        { key = 'q', payload = payload }))
    end)
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
    for i = 1, 20 do
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
