-- The HTTP port: --http.
local Broker = require 'support.broker'
local Certs = require 'support.certs'
local Client = require 'support.client'
local Http = require 'support.http'
local users = require 'support.users'
local wait = require 'support.wait'

describe('the HTTP port', function()
  local broker

  local function start(options)
    options = options or {}
    options.http = options.http or '127.0.0.1:0'
    broker = Broker.start(options)
    return Http.connect(broker)
  end

  after_each(function() if broker then broker:destroy() end end)

  it('answers without a login while there are no users, and keeps the connection', function()
    local http = start()
    assert.matches('^127%.0%.0%.1:%d+$', broker.http_address)
    assert.matches('listening on [^\n]+\nhttp on [^\n]+\n$', broker:stdout())
    local c = broker:connect()
    c:ok 'DECLARE queue jobs'
    c:ok('PUB - jobs', 'hello')
    local answer = http:get '/api/stats'
    assert.equal(200, answer.status)
    assert.equal('application/json', answer.headers['content-type'])
    assert.equal('no-store', answer.headers['cache-control'])
    assert.equal(1, answer.json.published)
    for _, row in ipairs(c:document 'LIST connections') do
      if row.protocol == 'http' then answer.row = row end
    end
    assert.matches('^127%.0%.0%.1:%d+$', answer.row.peer)
    assert.equal(200, http:get('/api/stats').status)
    broker:expect_clean_stop()
  end)

  it('is closed by --http none', function()
    broker = Broker.start()
    assert.is_nil(broker:stdout():find('http', 1, true))
    broker:expect_clean_stop()
  end)

  it('has the page and the health, for everybody', function()
    broker = Broker.start { http = '127.0.0.1:0', redis = {}, stopped = true }
    users.restore(broker.redis, { anna = {} })
    broker:run()
    local http = Http.connect(broker)
    local page = http:get '/'
    assert.equal(200, page.status)
    assert.equal('text/html; charset=utf-8', page.headers['content-type'])
    assert.matches('<title>tidemq', page.body)
    assert.matches("default%-src 'self'", page.headers['content-security-policy'])
    assert.equal(304, http:get('/', { ['If-None-Match'] = page.headers.etag }).status)
    assert.same({ live = true }, http:expect(200, 'GET', '/health/live'))
    assert.is_true(http:expect(200, 'GET', '/health/ready').ready)
    broker:expect_clean_stop()
  end)

  it('tells what is wrong with a request', function()
    local http = start()
    assert.equal('there is nothing at this path', http:expect_error(404, 'not-found', 'GET', '/api/nothing'))
    assert.equal('GET', http:request('DELETE', '/api/stats').headers.allow)
    assert.equal("GET /api/stats has no parameter 'sort'",
      http:expect_error(400, 'syntax', 'GET', '/api/stats?sort=name'))
    assert.equal('', http:request('HEAD', '/api/stats').body)
    assert.equal(415, http:request('GET', '/api/stats', 'x=1').status)
    assert.matches('^the body is not JSON: line 1, column 1',
      http:request('GET', '/api/stats', '{', { ['Content-Type'] = 'application/json' }).json.error.text)
    broker:expect_clean_stop()
  end)

  it('takes HTTP Basic when users are defined', function()
    broker = Broker.start { http = '127.0.0.1:0', redis = {}, stopped = true }
    users.restore(broker.redis, { anna = { tags = { 'monitor' } }, bert = {} })
    broker:run()
    local http = Http.connect(broker)
    local answer = http:get '/api/stats'
    assert.equal(401, answer.status)
    assert.equal('Basic realm="tidemq", charset="UTF-8"', answer.headers['www-authenticate'])
    answer = http:get('/api/stats', { ['X-Requested-With'] = 'page' })
    assert.equal(401, answer.status)
    assert.is_nil(answer.headers['www-authenticate'])
    http:log_in('anna', 'wrong')
    http:expect_error(401, 'denied', 'GET', '/api/stats')
    http:log_in('anna', users.password)
    http:expect(200, 'GET', '/api/stats')
    http:expect(200, 'GET', '/api/stats')
    http:log_in('bert', users.password)
    -- He may enter no vhost.
    http:expect_error(401, 'denied', 'GET', '/api/stats')
    broker:expect_clean_stop()
  end)

  describe('with an answer that does not end', function()
    local function events(http)
      http:send('GET', '/api/events?every=100ms')
      local head = http:head()
      assert.equal(200, head.status)
      assert.equal('text/event-stream', head.headers['content-type'])
      local name, data = http:chunk():match '^event: (%w+)\ndata: ({.*})\n\n$'
      assert.equal('stats', name)
      return data
    end

    local function ends(http)
      while http:chunk() do end
      assert.equal('closed', http.client:expect_closed())
    end

    it('sends one piece after the other', function()
      local http = start()
      assert.matches('"connections":', events(http))
      for _ = 1, 3 do assert.matches('^event: stats\ndata: ', http:chunk()) end
      http:close()
      -- Who has gone is noticed.
      local c = broker:connect()
      assert.is_truthy(wait.poll(function() return #c:document 'LIST connections' == 1 end))
      broker:expect_clean_stop()
    end)

    it('ends it when the broker stops', function()
      local http = start()
      events(http)
      broker:signal 'TERM'
      ends(http)
      broker:expect_clean_stop()
    end)

    it('ends it when its connection is killed', function()
      local http = start()
      events(http)
      local c = broker:connect()
      for _, row in ipairs(c:document 'LIST connections') do
        if row.protocol == 'http' then c:ok('KILL connection ' .. row.connection) end
      end
      http.client:drain_to_end()
      broker:expect_clean_stop()
    end)

    it('ends it when its user is deleted, and asks before who may see it', function()
      broker = Broker.start { http = '127.0.0.1:0', redis = {}, stopped = true }
      users.restore(broker.redis, {
        anna = { tags = { 'monitor' } }, bert = { vhosts = { ['/'] = { read = '.*' } } }, root = { tags = { 'admin' } },
      })
      broker:run()
      local http = Http.connect(broker, { user = 'bert', password = users.password })
      http:expect_error(403, 'denied', 'GET', '/api/events')
      http:log_in('anna', users.password)
      events(http)
      users.connect(broker, 'root'):ok 'USER delete anna'
      http.client:drain_to_end()
      broker:expect_clean_stop()
    end)
  end)

  it('keeps little for who reads nothing', function()
    local http = start()
    local before, count = broker:memory(), 8000
    local request = 'GET /api/stats HTTP/1.1\r\nHost: localhost\r\n\r\n'
    local sender = Client.connect(broker.http_address)
    sender.sock:send(request:rep(count))
    assert.equal(200, http:get('/api/stats').status)
    assert.is_true(broker:memory() - before < 8 << 20, 'the broker has grown to ' .. broker:memory())
    http:close()
    sender:close()
    broker:expect_clean_stop()
  end)

  it('answers requests that come all at once, in their order', function()
    local http = start()
    local parts = {}
    for i = 1, 500 do
      parts[i] = ('GET /%s HTTP/1.1\r\nHost: localhost\r\n\r\n'):format(i % 2 == 0 and 'api/stats' or i)
    end
    http.client:send(table.concat(parts))
    for i = 1, 500 do assert.equal(i % 2 == 0 and 200 or 404, http:answer().status) end
    broker:expect_clean_stop()
  end)

  it('closes who reads nothing for the write timeout', function()
    start { args = { '--write-timeout', '1s' } }
    local sender = Client.connect(broker.http_address)
    sender.sock:send(('GET /api/stats HTTP/1.1\r\nHost: localhost\r\n\r\n'):rep(20000))
    broker:expect_log 'closed: it read nothing for the write timeout'
    sender:close()
    broker:expect_clean_stop()
  end)

  it('survives who leaves while it is decided who he is', function()
    broker = Broker.start { http = '127.0.0.1:0', redis = {}, stopped = true }
    users.restore(broker.redis, { anna = { tags = { 'monitor' } } })
    broker:run()
    -- A wrong password is answered late.
    local slow = Http.connect(broker, { user = 'anna', password = 'wrong' })
    slow:expect(401, 'GET', '/api/stats')
    slow:send('GET', '/api/stats')
    slow:close()
    local http = Http.connect(broker, { user = 'anna', password = users.password })
    local killed = Http.connect(broker, { user = 'anna', password = 'wrong' })
    killed:send('GET', '/api/stats')
    http:expect(200, 'GET', '/api/stats')
    broker:expect_clean_stop()
  end)

  it('speaks TLS, and says so to who does not', function()
    local certs = Certs.make()
    broker = Broker.start { http = 'tls:127.0.0.1:0', certs = certs }
    assert.matches('^tls:127%.0%.0%.1:%d+$', broker.http_address)
    Http.connect(broker):expect(200, 'GET', '/api/stats')
    local plain = Http.connect(broker, { is_plain = true })
    plain:send('GET', '/')
    plain.client:expect '^HTTP/1.1 400 Bad Request$'
    broker:expect_clean_stop()
    certs:destroy()
  end)

  it('answers who closes his side after the request', function()
    local http = start()
    http:send('GET', '/api/stats')
    http.client:shutdown()
    assert.equal(200, http:answer().status)
    assert.equal('closed', http.client:expect_closed())
    local half = Client.connect(broker.http_address)
    half:send 'GET / HT'
    half:shutdown()
    assert.equal('closed', half:expect_closed())
    broker:expect_clean_stop()
  end)
end)
