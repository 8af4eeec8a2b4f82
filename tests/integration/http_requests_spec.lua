-- What reads HTTP: which requests it takes, and what a client that sends or reads as none should costs others.
local Broker = require 'support.broker'
local Client = require 'support.client'
local Http = require 'support.http'
local lfs = require 'lfs'

local names = { r = '\r', n = '\n', t = '\t' }

--- The escapes of tests/unit/cases.h.
local function unescape(text)
  text = text:gsub('\\{(%d+):(.-)}', function(times, part) return part:rep(tonumber(times)) end)
  return (text:gsub('\\(.)(%x?%x?)', function(name, hex)
    if name == 'x' then return string.char(tonumber(hex, 16)) end
    return (names[name] or name) .. hex
  end))
end

local function each_case(run)
  for line in io.lines 'tests/cases/http_requests.txt' do
    local status, request = line:match '^(%d%d%d) (.+)$'
    if status then run(math.tointeger(tonumber(status)), unescape(request), line:sub(1, 200)) end
  end
end

describe('what reads HTTP', function()
  local broker

  local function start(options)
    options = options or {}
    options.http = '127.0.0.1:0'
    broker = Broker.start(options)
    return broker:connect()
  end

  after_each(function()
    if not broker then return end
    broker:expect_clean_stop()
    broker:destroy()
    broker = nil
  end)

  it('takes and refuses each case by its status', function()
    start()
    local count = 0
    each_case(function(status, request, line)
      local http = Http.connect(broker)
      http.client:send(request)
      local answer = http:answer(request:match '^%s*(%u+)')
      assert.equal(status, answer.status, line)
      if status == 200 then
        assert.equal(200, http:get('/api/whoami').status, line)
        http:close()
      else
        assert.equal('close', answer.headers.connection, line)
        assert.is_string(answer.json.error.text, line)
        http.client:expect_closed()
      end
      count = count + 1
    end)
    assert.is_true(count > 140)
  end)

  it('is not held up by a line that does not end', function()
    local c = start()
    for _, rest in ipairs { '19;%' .. ('0'):rep(60000) .. 'd', ('0'):rep(60000), '0\r\n' .. ('X:y\r\n'):rep(20000) } do
      local http = Http.connect(broker)
      http.client:send('GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n')
      http.client.sock:send(rest)
      assert.is_true(http:answer().status >= 400)
      c:expect_answer('PING', 'OK')
    end
  end)

  it('needs no descriptor but that of the connection', function()
    start():ok 'PING'
    local function count()
      local n = 0
      for _ in lfs.dir(('/proc/%d/fd'):format(broker:pid())) do n = n + 1 end
      return n
    end
    local before, list = count(), {}
    for i = 1, 50 do
      list[i] = Http.connect(broker)
      list[i]:expect(200, 'GET', '/api/whoami')
    end
    assert.equal(before + 50, count())
  end)

  it('takes the same byte by byte', function()
    local c = start()
    local http = Http.connect(broker)
    http.client.sock:setoption('tcp-nodelay', true)
    local head = ' HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n'
    local options = '{"options":{"max-length":9}}'
    local all = 'PUT /api/vhosts/%2F/queues/jobs' .. head .. ('Content-Length: %d\r\n\r\n%s'):format(#options, options)
      .. 'POST /api/vhosts/%2F/exchanges/-/publish' .. head .. 'Transfer-Encoding: chunked\r\n\r\n'
      .. '7;a="b"\r\n{"key":\r\n17\r\n"jobs","payload":"one"}\r\n0\r\nX: y\r\n\r\n\r\n'
      .. 'GET /api/nothing' .. head .. '\r\n'
    for byte in all:gmatch '.' do http.client:send(byte) end
    assert.equal(200, http:answer().status)
    assert.equal(1, http:answer().json.queues)
    assert.equal(404, http:answer().status)
    assert.equal('one', c:get('jobs ack=auto')[1].payload)
  end)

  it('asks for a body that waits for a word', function()
    start()
    local http = Http.connect(broker)
    http.client:send('PUT /api/vhosts/%2F/queues/jobs HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n'
      .. 'Content-Type: application/json\r\nContent-Length: 2\r\n\r\n')
    http.client:expect_line('HTTP/1.1 100 Continue'):expect_line ''
    http.client:send '{}'
    assert.equal(200, http:answer().status)
    -- Not for one that is refused anyway.
    http.client:send('PUT /nowhere HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n')
    assert.equal(404, http:head().status)
  end)

  it('ends the connection as the version says', function()
    start()
    for _, case in ipairs {
      { '1.0', '', 'close' }, { '1.0', 'Connection: keep-alive\r\n', 'keep-alive' }, { '1.1', '' },
      { '1.1', 'Connection: x, Close\r\n', 'close' },
    } do
      local http = Http.connect(broker)
      http.client:send(('GET /api/whoami HTTP/%s\r\nHost: localhost\r\n%s\r\n'):format(case[1], case[2]))
      local answer = http:answer()
      assert.equal(200, answer.status)
      assert.equal(case[3], answer.headers.connection)
      if case[3] == 'close' then http.client:expect_closed() else http:expect(200, 'GET', '/api/whoami') end
    end
    -- An answer in pieces ends with the connection.
    local http = Http.connect(broker)
    http.client:send 'GET /metrics HTTP/1.0\r\n\r\n'
    assert.is_nil(http:head().headers['transfer-encoding'])
    assert.matches('^# HELP tidemq_.*\n$', http.client:drain_to_end())
  end)

  it('makes one answer at a time for who reads none', function()
    local c = start()
    c:ok 'DECLARE queue fat'
    for _ = 1, 100 do c:ok('PUB - fat', ('x'):rep(20000)) end
    local before, list = broker:memory(), {}
    for i = 1, 20 do
      list[i] = Client.connect(broker.http_address)
      list[i].sock:send(('GET /api/vhosts/%2F/queues/fat/messages HTTP/1.1\r\nHost: localhost\r\n\r\n'):rep(20))
    end
    local http = Http.connect(broker)
    for _ = 1, 20 do http:expect(200, 'GET', '/api/vhosts/%2F/queues/fat/messages') end
    broker:expect_memory_below(before + 20 * (4 << 20))
    -- All of them come when they are read.
    local reader = Http.connect(broker)
    reader.client:close()
    reader.client = list[1]
    for _ = 1, 20 do assert.equal(100, #reader:answer().json.messages) end
    for _, one in ipairs(list) do one:close() end
  end)
end)
