-- STOMP in a WebSocket: GET /stomp of the HTTP port.
local Broker = require 'support.broker'
local Http = require 'support.http'
local Websocket = require 'support.websocket'
local users = require 'support.users'
local wait = require 'support.wait'

describe('a WebSocket', function()
  local broker

  local function start(options)
    options = options or {}
    options.http = '127.0.0.1:0'
    broker = Broker.start(options)
  end

  after_each(function()
    if not broker then return end
    broker:expect_clean_stop()
    broker:destroy()
    broker = nil
  end)

  local function connect(headers)
    local ws = Websocket.connect(broker, headers)
    ws:send 'CONNECT\naccept-version:1.2\nhost:/\n\n\0'
    ws:expect '^CONNECTED\nversion:1%.2\n'
    return ws
  end

  it('has STOMP in it', function()
    start()
    local ws = Websocket.connect(broker, { ['Sec-WebSocket-Protocol'] = 'mqtt, v11.stomp, v12.stomp' })
    assert.equal('v12.stomp', ws.answer.headers['sec-websocket-protocol'])
    ws:send 'CONNECT\naccept-version:1.2\nhost:/\n\n\0'
    ws:expect '^CONNECTED\nversion:1%.2\n'
    ws:send 'SUBSCRIBE\nid:1\ndestination:/queue/jobs\nreceipt:r1\n\n\0'
    ws:expect '^RECEIPT\nreceipt%-id:r1\n'
    ws:send 'SEND\ndestination:/queue/jobs\n\nhéllo\0'
    ws:expect '^MESSAGE\nsubscription:1\n.*\n\nhéllo%z\n$'
    -- What is no text comes in binary frames.
    ws:send('SEND\ndestination:/queue/jobs\ncontent-length:3\n\n\xff\0\xfe\0', { opcode = Websocket.BINARY })
    ws:expect('^MESSAGE\n.*\n\n\xff%z\xfe%z\n$', Websocket.BINARY)
    local rows, row = broker:connect():document 'LIST connections', nil
    for _, one in ipairs(rows) do if one.protocol == 'stomp' then row = one end end
    assert.is_true(row.websocket)
    assert.equal('1.2', row.version)
    assert.equal(2, #rows)
    ws:send 'DISCONNECT\nreceipt:bye\n\n\0'
    ws:expect '^RECEIPT\nreceipt%-id:bye\n'
    ws:expect_close(1000)
  end)

  it('may cut frames anywhere, and put several into one', function()
    start()
    local ws = Websocket.connect(broker)
    local text = 'CONNECT\naccept-version:1.2\nhost:/\n\n\0' .. 'SEND\ndestination:/queue/a\nreceipt:1\n\none\0\n'
      .. 'SEND\ndestination:/queue/a\nreceipt:2\n\ntwo\0'
    -- A message in three fragments, with a ping between.
    ws:send(text:sub(1, 11), { fin = false })
    ws:send('are you there?', { opcode = Websocket.PING })
    ws:send(text:sub(12, 50), { opcode = 0, fin = false })
    ws:expect('^are you there%?$', Websocket.PONG)
    ws:send(text:sub(51), { opcode = 0 })
    ws:expect '^CONNECTED\n'
    ws:expect '^RECEIPT\nreceipt%-id:1\n'
    ws:expect '^RECEIPT\nreceipt%-id:2\n'
    -- Byte by byte.
    local frame = Websocket.frame 'SEND\ndestination:/queue/a\nreceipt:3\n\nthree\0'
    for byte in frame:gmatch '.' do ws.client:send(byte) end
    ws:expect '^RECEIPT\nreceipt%-id:3\n'
    -- A message for each byte.
    for byte in ('SEND\ndestination:/queue/a\nreceipt:4\n\nfour\0'):gmatch '.' do ws:send(byte) end
    ws:expect '^RECEIPT\nreceipt%-id:4\n'
    assert.equal('three', broker:connect():get('a max=3 ack=auto')[3].payload)
    ws:send(string.pack('>I2', 1000) .. 'done', { opcode = Websocket.CLOSE })
    ws:expect_close(1000)
  end)

  it('carries large messages both ways', function()
    start { args = { '--max-payload', '4M' } }
    local ws = connect()
    local body = ('0123456789abcdef'):rep(1 << 17)
    ws:send 'SUBSCRIBE\nid:1\ndestination:/queue/big\nack:client\n\n\0'
    ws:send('SEND\ndestination:/queue/big\nreceipt:r\n\n' .. body .. '\0')
    local receipt, message
    for _ = 1, 2 do
      local frame = ws:receive()
      if frame.payload:find '^RECEIPT' then receipt = frame else message = frame end
    end
    assert.is_truthy(receipt)
    assert.is_true(message.payload:match '\n\n(.*)%z\n$' == body)
  end)

  it('is closed with a code that says why', function()
    start { args = { '--max-payload', '1M' } }
    connect():send('SEND\n', { masked = false }):expect_close(1002)
    connect():send('x', { opcode = 5 }):expect_close(1002)
    connect():send('x', { opcode = 0 }):expect_close(1002)
    connect():send(('x'):rep(126), { opcode = Websocket.PING }):expect_close(0)
    connect():send('\xff\xfe'):expect_close(1007)
    connect():send('x', { len = 2 << 20 }):expect_close(1009)
    -- What is wrong with STOMP is told by STOMP.
    local ws = connect():send 'NONSENSE\n\n\0'
    ws:expect '^ERROR\n'
    ws:expect_close(1000)
    -- Also while an answer is owed.
    ws = connect():send 'SUBSCRIBE\nid:1\ndestination:/queue/new\n\n\0NONSENSE\n\n\0'
    ws:expect '^ERROR\n'
    ws:expect_close(1000)
  end)

  it('logs in by CONNECT', function()
    local all = { ['/'] = { configure = '.*', write = '.*', read = '.*' } }
    broker = users.start({ anna = { vhosts = all } }, { http = '127.0.0.1:0' })
    local ws = Websocket.connect(broker)
    ws:send(('CONNECT\naccept-version:1.2\nhost:/\nlogin:anna\npasscode:%s\n\n\0'):format(users.password))
    ws:expect '^CONNECTED\n'
    ws = Websocket.connect(broker)
    ws:send 'CONNECT\naccept-version:1.2\nhost:/\nlogin:anna\npasscode:wrong\n\n\0'
    ws:expect '^ERROR\n.*code:denied\n'
    ws:expect_close(1000)
  end)

  it('ends with the broker, by KILL, and when nobody logs in', function()
    broker = users.start({
      root = { tags = { 'admin' }, vhosts = { ['/'] = { configure = '.*', write = '.*', read = '.*' } } },
    }, { http = '127.0.0.1:0', args = { '--login-timeout', '2s' } })
    local login = ('CONNECT\naccept-version:1.2\nhost:/\nlogin:root\npasscode:%s\n\n\0'):format(users.password)
    local silent, killed, last = Websocket.connect(broker), Websocket.connect(broker), Websocket.connect(broker)
    killed:send(login):expect '^CONNECTED\n'
    last:send(login):expect '^CONNECTED\n'
    local c = users.connect(broker, 'root')
    local number = math.huge
    for _, row in ipairs(c:document 'LIST connections') do
      if row.websocket and row.version then number = math.min(number, row.connection) end
    end
    c:ok('KILL connection ' .. math.tointeger(number))
    killed:expect '^ERROR\n'
    killed.client:drain_to_end()
    silent:expect '^ERROR\n.*login%-timeout'
    silent.client:drain_to_end()
    broker:expect_clean_stop()
    last:expect '^ERROR\n.*shutdown'
    last.client:drain_to_end()
  end)

  it('sends heart-beats, and wants them', function()
    start()
    local ws = Websocket.connect(broker)
    ws:send 'CONNECT\naccept-version:1.2\nhost:/\nheart-beat:1000,1000\n\n\0'
    ws:expect '^CONNECTED\n'
    ws:expect '^\n$'
    -- Two are missing: it is gone.
    while true do
      local frame = ws:receive()
      if frame.payload:find '^ERROR' then break end
      assert.equal('\n', frame.payload)
    end
    ws:expect_close(1000)
  end)

  it('holds back who publishes too much, and loses nothing', function()
    start { args = { '--store', 'none', '--max-memory', '1M' } }
    local ws, c = connect(), broker:connect()
    c:ok 'DECLARE queue jobs'
    local frame = Websocket.frame('SEND\ndestination:/queue/jobs\n\n' .. ('x'):rep(20000) .. '\0')
    for _ = 1, 100 do ws.client:send(frame) end
    local count = 0
    assert.is_truthy(wait.poll(function()
      count = count + #c:get 'jobs max=10 ack=auto'
      return count == 100
    end), count .. ' came')
  end)

  it('is not opened by other pages, or for what is no WebSocket', function()
    start()
    assert.equal(403, Websocket.try(broker, { Origin = 'http://evil.example' }).answer.status)
    assert.equal(403, Websocket.try(broker, { Host = 'evil.example' }).answer.status)
    assert.equal(400, Websocket.try(broker, { ['Sec-WebSocket-Key'] = 'short' }).answer.status)
    assert.equal(400, Websocket.try(broker, { ['Sec-WebSocket-Protocol'] = 'mqtt' }).answer.status)
    local old = Websocket.try(broker, { ['Sec-WebSocket-Version'] = '8' }).answer
    assert.equal(426, old.status)
    assert.equal('13', old.headers['sec-websocket-version'])
    local http = Http.connect(broker)
    assert.equal(426, http:get('/stomp').status)
    assert.equal(405, http:post('/stomp').status)
  end)

  it('is for pages of the origins that the broker is started with, too', function()
    local own = Broker.start { http = '127.0.0.1:0',
      args = { '--store', 'none', '--http-origin', 'https://app.example' } }
    assert.equal(101, Websocket.try(own, { Origin = 'https://app.example' }).answer.status)
    assert.equal(403, Websocket.try(own, { Origin = 'http://app.example' }).answer.status)
    own:expect_clean_stop()
  end)
end)
