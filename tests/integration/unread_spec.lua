-- Answers that nobody reads: they are memory, each connection has few of them, and all have a part of it.
local Broker = require 'support.broker'
local Http = require 'support.http'
local Websocket = require 'support.websocket'
local wait = require 'support.wait'

local MIB = 1024 * 1024

describe('an answer that nobody reads', function()
  local broker, c

  local function start(...)
    broker = Broker.start {
      args = { '--store', 'none', ... }, listen = { '127.0.0.1:0', 'unix:@DIR@/lazy' }, http = 'unix:@DIR@/http',
    }
    c = broker:connect()
  end

  after_each(function() broker:destroy() end)

  local function memory()
    return c:document('STATS').memory_bytes
  end

  local function wait_memory(bytes)
    local last
    local is_there = wait.poll(function()
      last = memory()
      return last == bytes
    end)
    assert(is_there, ('%d bytes, not %d'):format(last, bytes))
  end

  --- Far more than a Unix socket takes.
  local function fill(queue, count, len)
    c:ok('DECLARE queue ' .. queue .. ' durable=0 shards=1')
    for i = 1, count do c:ok(('PUB - %s h:i=%d'):format(queue, i), ('x'):rep(len)) end
  end

  --- Requests that are sent, and of whose answers nothing is read.
  local function ask(text)
    local client = broker:connect(2)
    assert(client.sock:send(text))
    return client
  end

  --- Wait until the broker neither reads nor sends anything more for those who ask.
  local function wait_still()
    local last, same = nil, 0
    assert(wait.poll(function()
      local sum = memory()
      for _, one in ipairs(c:document 'LIST connections') do
        if one.number ~= c.number then sum = sum + one.bytes_out + one.bytes_in end
      end
      same = sum == last and same + 1 or 0
      last = sum
      return same == 5
    end, 60))
  end

  --- Send until the broker takes no more.
  local function flood(client, text)
    local at, moves = 1, true
    client.sock:settimeout(0)
    while moves and at <= #text do
      local last, _, partial = client.sock:send(text, at)
      moves = (last or partial) >= at
      at = (last or partial) + 1
      wait_still()
    end
  end

  --- What the broker has for the client of that name.
  local function output(name)
    for _, one in ipairs(c:document 'LIST connections') do
      if one.name == name then return one.output end
    end
  end

  it('counts as memory until it is taken', function()
    start()
    fill('q', 1, 8 * MIB)
    local before = memory()
    local lazy = ask 'PEEK q\r\n'
    assert.is_truthy(wait.poll(function() return memory() > before + 7 * MIB end))
    assert.equal(8 * MIB, #lazy:expect_json().messages[1].payload)
    wait_memory(before)
    -- What it holds is in the queue.
    lazy:send 'GET q\r\n'
    wait_still()
    assert.is_true(memory() < before + 1000)
    lazy:expect_line 'OK 1'
    lazy:expect_msg()
    lazy:ok 'NACK 1 requeue'
    local gone = ask 'GET q ack=auto\r\n'
    assert.is_truthy(wait.poll(function() return memory() > 7 * MIB end))
    gone:expect_line 'OK 1'
    assert.equal(8 * MIB, #gone:expect_msg().payload)
  end)

  it('is one of few: those of all have a sixteenth of the memory for messages', function()
    start('--max-memory', '64M')
    local LEN, CLIENTS, ASKED = 200000, 40, 20
    fill('fat', 100, LEN)
    local before, resident = memory(), broker:memory()
    local clients = {}
    -- What is between two of them shows their order.
    local text = {}
    for i = 1, ASKED do text[i] = ('PEEK fat 100\r\nSTATS\r\nEXPLAIN - %d\r\nPING\r\n'):format(i) end
    for i = 1, CLIENTS do clients[i] = ask(table.concat(text)) end
    wait_still()
    -- One message is shown in any case.
    assert.is_true(memory() < before + 4 * MIB + CLIENTS * 2 * LEN, memory() - before)
    broker:expect_memory_below(resident + 64 * MIB)
    assert.is_false(c:document('STATS').blocked)
    c:ok('PUB - fat', 'x')
    local page = c:document 'PEEK fat 100'
    assert.equal('1', page.messages[1].headers.i)
    assert.is_truthy(#page.messages == 1 and page.next or #page.messages > 1)
    for i = 1, 3 do
      assert.equal('1', clients[1]:expect_json().messages[1].headers.i)
      assert.is_truthy(clients[1]:expect_json().uptime_ms)
      assert.equal(tostring(i), clients[1]:expect_json().key)
      clients[1]:expect_line 'OK'
    end
    for _, one in ipairs(clients) do one:close() end
    assert.is_truthy(wait.poll(function() return memory() < before + 1000 end))
    assert.equal(21, #c:peek 'fat 100')
  end)

  it('lets the next request wait, however small both are', function()
    start()
    local lazy = ask 'HELLO name=lazy\r\n'
    -- An error is many times as long.
    flood(lazy, ('x\n'):rep(200000))
    local len = output 'lazy'
    assert.is_true(len > 0 and len <= MIB + 1024, len)
    lazy:expect_data()
    for _ = 1, 100 do lazy:expect '^ERR unknown%-verb' end
  end)

  it('to STOMP and in a WebSocket has the same mark', function()
    start()
    local frame = ('SEND\ndestination:/queue/q\nreceipt:%s\n\nx\0'):format(('r'):rep(1000)):rep(60)
    local web = Websocket.connect(broker)
    local frames = Websocket.frame(frame)
    web:send 'CONNECT\naccept-version:1.2\nhost:/\nclient-id:web\n\n\0'
    web:expect '^CONNECTED\n'
    local lazy = ask 'CONNECT\naccept-version:1.2\nhost:/\nclient-id:lazy\n\n\0'
    flood(lazy, frame:rep(50))
    flood(web.client, frames:rep(50))
    for _, name in ipairs { 'lazy', 'web' } do
      local len = output(name)
      assert.is_true(len > 0 and len <= MIB + 4096, name .. ' ' .. len)
    end
  end)

  it('lets the next request wait while it waits for one before it', function()
    start()
    c:ok 'DECLARE topic t durable=0 partitions=1'
    c:ok 'DECLARE queue empty'
    for _ = 1, 10 do c:ok('PUB - t', ('x'):rep(100000)) end
    local before, resident = memory(), broker:memory()
    local patient = ask('GET empty wait=10m ack=auto\r\n' ..
      ('GET t partition=0 offset=first max=1000\r\n'):rep(100) .. 'PING\r\n')
    wait_still()
    assert.is_true(memory() > before + MIB and memory() < before + 3 * MIB, memory() - before)
    broker:expect_memory_below(resident + 16 * MIB)
    c:ok('PUB - empty', 'go on')
    patient:expect_line 'OK 1'
    assert.equal('go on', patient:expect_msg().payload)
    for _ = 1, 100 do
      patient:expect_line 'OK 10'
      for offset = 0, 9 do assert.equal(tostring(offset), patient:expect_msg().options.offset) end
    end
    patient:expect_line 'OK'
    wait_memory(before)
  end)

  it('of many reads of a topic is one of few', function()
    start()
    c:ok 'DECLARE topic t durable=0 partitions=1'
    local reader = ask(('GET t partition=0 offset=0 wait=10m\r\n'):rep(1000) .. 'PING\r\n')
    wait_still()
    c:ok('PUB - t', ('x'):rep(MIB))
    wait_still()
    assert.is_true(memory() < 80 * MIB, memory())
    broker:expect_memory_below(200 * MIB)
    for _ = 1, 200 do
      reader:expect_line 'OK 1'
      assert.equal(MIB, #reader:expect_msg().payload)
    end
  end)

  it('holds nothing else back while it is written', function()
    start()
    c:ok 'DECLARE queue q durable=0 shards=1'
    for _ = 1, 30000 do c:send 'PUB - q quiet 4\r\nabcd\r\n' end
    c:expect_nothing()
    c:send('PEEK q 1 match=none\r\nPEEK q 1 match=none\r\n@1 OPEN\r\n@1 PING\r\nPEEK q 2\r\nSTATS q\r\n')
    for _ = 1, 2 do assert.equal(10000, c:expect_json().searched) end
    c:expect_line '@1 OK'
    c:expect_line '@1 OK'
    assert.equal(2, #c:expect_json().messages)
    assert.equal(30000, c:expect_json().ready)
  end)

  it('leaves room for small ones alone', function()
    start('--max-memory', '64M')
    fill('q', 1, 8 * MIB)
    for i = 1, 8000 do c:send(('DECLARE queue queue%d durable=0\r\n'):format(i)) end
    for _ = 1, 8000 do c:expect_line 'OK' end
    local lazy = ask 'PEEK q\r\n'
    assert.is_truthy(wait.poll(function() return memory() > 15 * MIB end))
    local busy = 'answers that clients do not read fill %d+ MiB of memory: ask again later, or for less$'
    assert.matches('^ERR busy ' .. busy, c:request 'LIST queues')
    assert.matches('^ERR busy ' .. busy, c:request('FIND q ' .. c:peek('q')[1].id))
    assert.equal(10, #c:document 'LIST queues max=10')
    local http = Http.connect(broker)
    local answer = http:get '/api/vhosts/%2F/queues'
    assert.equal(503, answer.status)
    assert.matches('^' .. busy, answer.json.error.text)
    assert.equal(8 * MIB, #lazy:expect_json().messages[1].payload)
    assert.equal(8001, #c:document 'LIST queues')
    assert.equal(8001, #http:get('/api/vhosts/%2F/queues').json.items)
  end)

  it('is given up after the write timeout', function()
    start('--write-timeout', '1s')
    fill('q', 1, 8 * MIB)
    local before = memory()
    ask 'PEEK q\r\n'
    assert.is_truthy(wait.poll(function() return memory() > before + 7 * MIB end))
    wait_memory(before)
    broker:expect_log 'it read nothing for the write timeout'
  end)

  it('is memory over HTTP too, and the next is made when it has left', function()
    start()
    fill('q', 1, 8 * MIB)
    local before, resident = memory(), broker:memory()
    local http = Http.connect(broker)
    for _ = 1, 3 do http:send('GET', '/api/vhosts/%2F/queues/q/messages') end
    wait_still()
    local taken = memory() - before
    assert.is_true(taken > 7 * MIB and taken < 9 * MIB, taken)
    broker:expect_memory_below(resident + 64 * MIB)
    for _ = 1, 3 do assert.equal(8 * MIB, #http:answer().json.messages[1].payload) end
    wait_memory(before)
  end)

  it('of a topic shows less too', function()
    start('--max-memory', '16M')
    c:ok 'DECLARE topic t durable=0 partitions=1'
    for i = 1, 40 do c:ok('PUB - t h:i=' .. i, ('x'):rep(100000)) end
    local page = c:document 'PEEK t 100'
    assert.is_true(#page.messages >= 10 and #page.messages < 12, #page.messages)
    assert.equal(tostring(#page.messages), page.next)
    page = c:document('PEEK t 100 offset=' .. page.next)
    assert.is_true(#page.messages >= 10 and #page.messages < 12, #page.messages)
  end)
end)
