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

  after_each(function()
    if not broker then return end
    broker:expect_clean_stop()
    broker:destroy()
    broker = nil
  end)

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
  end)

  it('is closed by --http none', function()
    broker = Broker.start()
    assert.is_nil(broker:stdout():find('http', 1, true))
  end)

  it('has the page and the health, for everybody', function()
    broker = users.start({ anna = {} }, { http = '127.0.0.1:0' })
    local http = Http.connect(broker)
    local page = http:get '/'
    assert.equal(200, page.status)
    assert.equal('text/html; charset=utf-8', page.headers['content-type'])
    assert.matches('<title>tidemq', page.body)
    assert.matches("default%-src 'self'", page.headers['content-security-policy'])
    assert.equal(304, http:get('/', { ['If-None-Match'] = page.headers.etag }).status)
    assert.same({ live = true }, http:expect(200, 'GET', '/health/live'))
    assert.is_true(http:expect(200, 'GET', '/health/ready').ready)
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
  end)

  it('takes HTTP Basic when users are defined', function()
    broker = users.start({ anna = { tags = { 'monitor' } }, bert = {} }, { http = '127.0.0.1:0' })
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
    -- He may enter no vhost, and no other password helps.
    assert.equal("user 'bert' may not enter vhost '/'", http:expect_error(403, 'denied', 'GET', '/api/stats'))
    assert.is_nil(http:get '/api/stats'.headers['www-authenticate'])
    -- There may be one or not.
    http:expect_error(403, 'denied', 'GET', '/api/vhosts/absent/queues')
    http:expect_error(403, 'denied', 'PUT', '/api/vhosts/absent/queues/q')
    http:log_in('bert', 'wrong')
    http:expect_error(401, 'denied', 'GET', '/api/stats')
  end)

  it('makes a vhost that a grant names by a declaration alone', function()
    broker = Broker.start { http = '127.0.0.1:0', redis = {} }
    local function check(http, name)
      local path = '/api/vhosts/' .. name
      for _, request in ipairs {
        { 'GET', '/queues' }, { 'GET', '/queues/q' }, { 'DELETE', '/queues/q' }, { 'POST', '/queues/q/get' },
        { 'POST', '/exchanges/-/publish' }, { 'DELETE', '/bindings' },
      } do
        assert.matches(("^there is no vhost '%s', only '/'.*; DECLARE vhost %s makes it$"):format(name, name),
          http:expect_error(404, 'not-found', request[1], path .. request[2]))
      end
      http:expect_error(404, 'not-found', 'GET', '/api/rules/recent?vhost=' .. name)
      assert.is_nil(http:get '/api/vhosts'.body:find(name, 1, true))
      http:expect(200, 'PUT', path .. '/queues/q', {})
      http:expect(200, 'GET', path .. '/queues/q')
      assert.is_truthy(http:get '/api/vhosts'.body:find(name, 1, true))
    end
    local http = Http.connect(broker)
    Http.connect(broker):expect_error(404, 'not-found', 'PUT', '/api/vhosts/shop/queues/q', {})
    http:expect(200, 'PUT', '/api/vhosts/shop')
    http:expect(200, 'PUT', '/api/vhosts/shop/queues/q', {})
    http:expect_error(409, 'exists', 'DELETE', '/api/vhosts/shop')
    http:expect(200, 'DELETE', '/api/vhosts/shop/queues/q')
    http:expect(200, 'DELETE', '/api/vhosts/shop')
    http:expect(200, 'PUT', '/api/users/root', { password = users.password, tags = { 'admin' } })
    local root = Http.connect(broker, { user = 'root', password = users.password })
    root:expect(200, 'PUT', '/api/users/root/grants/store', { configure = '.*', write = '.*', read = '.*' })
    check(root, 'store')
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
    end)

    it('ends it when the broker stops', function()
      local http = start()
      events(http)
      broker:expect_clean_stop()
      ends(http)
    end)

    it('ends it when its connection is killed', function()
      local http = start()
      events(http)
      local c = broker:connect()
      for _, row in ipairs(c:document 'LIST connections') do
        if row.protocol == 'http' then c:ok('KILL connection ' .. row.connection) end
      end
      http.client:drain_to_end()
    end)

    it('ends it when its user is deleted, and asks before who may see it', function()
      broker = users.start({
        anna = { tags = { 'monitor' } }, bert = { vhosts = { ['/'] = { read = '.*' } } }, root = { tags = { 'admin' } },
      }, { http = '127.0.0.1:0' })
      local http = Http.connect(broker, { user = 'bert', password = users.password })
      http:expect_error(403, 'denied', 'GET', '/api/events')
      http:log_in('anna', users.password)
      events(http)
      users.connect(broker, 'root'):ok 'USER delete anna'
      http.client:drain_to_end()
    end)
  end)

  it('keeps little for who reads nothing', function()
    local http = start()
    local before, count = broker:memory(), 8000
    local request = 'GET /api/stats HTTP/1.1\r\nHost: localhost\r\n\r\n'
    local sender = Client.connect(broker.http_address)
    sender.sock:send(request:rep(count))
    assert.equal(200, http:get('/api/stats').status)
    broker:expect_memory_below(before + (8 << 20))
    http:close()
    sender:close()
  end)

  it('answers requests that come all at once, in their order', function()
    local http = start()
    local parts = {}
    for i = 1, 500 do
      parts[i] = ('GET /%s HTTP/1.1\r\nHost: localhost\r\n\r\n'):format(i % 2 == 0 and 'api/stats' or i)
    end
    http.client:send(table.concat(parts))
    for i = 1, 500 do assert.equal(i % 2 == 0 and 200 or 404, http:answer().status) end
  end)

  it('closes who reads nothing for the write timeout', function()
    start { args = { '--write-timeout', '1s' } }
    local sender = Client.connect(broker.http_address)
    sender.sock:send(('GET /api/stats HTTP/1.1\r\nHost: localhost\r\n\r\n'):rep(20000))
    broker:expect_log 'closed: it read nothing for the write timeout'
    sender:close()
  end)

  it('survives who leaves while it is decided who he is', function()
    broker = users.start({ anna = { tags = { 'monitor' } } }, { http = '127.0.0.1:0' })
    -- A wrong password is answered late.
    local slow = Http.connect(broker, { user = 'anna', password = 'wrong' })
    slow:expect(401, 'GET', '/api/stats')
    slow:send('GET', '/api/stats')
    slow:close()
    local http = Http.connect(broker, { user = 'anna', password = users.password })
    local killed = Http.connect(broker, { user = 'anna', password = 'wrong' })
    killed:send('GET', '/api/stats')
    http:expect(200, 'GET', '/api/stats')
  end)

  describe('asked by a browser', function()
    local function status_with(http, headers, path)
      local answer = http:get(path or '/api/stats', headers)
      return answer.status, answer.json and answer.json.error and answer.json.error.text
    end

    it('answers its own pages alone', function()
      local http = start()
      local own = http.headers.Host
      assert.equal(200, status_with(http, { Origin = 'http://' .. own }))
      assert.equal(200, status_with(http, { Origin = 'https://' .. own }))
      local others = { 'http://evil.example', 'null', 'http://' .. own .. '.evil.example', 'http://127.0.0.1' }
      for _, origin in ipairs(others) do
        local status, text = status_with(http, { Origin = origin })
        assert.equal(403, status)
        assert.equal(('a page of %s may not ask this broker: only its own pages may, '
          .. 'and those of serve --http-origin'):format(origin), text)
      end
    end)

    it('is not led astray by names, while nobody must log in', function()
      local http = start { args = { '--http-host', 'broker.lan', '--http-host', 'other.lan' } }
      for _, host in ipairs {
        'localhost', 'LocalHost:7311', '127.0.0.1', '192.168.1.7:80', '[::1]:7311', '[fe80::1]',
        'broker.lan', 'other.lan:1',
      } do
        assert.equal(200, (status_with(http, { Host = host })), host)
      end
      local others = { 'evil.example', 'evil.example:7311', '127.0.0.1.evil.example', '[localhost', 'broker.lan.',
        '[::1].evil.example' }
      for _, host in ipairs(others) do
        assert.equal(403, (status_with(http, { Host = host })), host)
      end
      local _, text = status_with(http, { Host = 'evil.example:7311' })
      assert.equal("this broker is not known as 'evil.example': start it with --http-host evil.example, "
        .. 'or define users', text)
      -- A probe knows it by any name.
      assert.equal(200, (status_with(http, { Host = 'evil.example' }, '/health/live')))
    end)

    it('is asked by the host of an absolute address, whatever the header says', function()
      local http = start()
      local evil = { Host = 'evil.example' }
      for _, address in ipairs { 'http://localhost:7311', 'HTTPS://127.0.0.1', 'http://[::1]:1' } do
        assert.equal(200, (status_with(http, evil, address .. '/health/live')), address)
        assert.equal(200, (status_with(http, evil, address .. '/api/stats')), address)
      end
      assert.equal(0, #http:request('GET', 'http://localhost/api/vhosts/%2F/queues?max=1').json)
      assert.equal(200, (status_with(http, nil, 'http://localhost')))
      assert.equal(404, (status_with(http, nil, 'http://localhost/nothing')))
      assert.equal(200, (status_with(http, { Origin = 'http://localhost:1' }, 'http://localhost:1/api/stats')))
      -- Another host is refused as by its header; what names none is no address.
      assert.equal(403, (status_with(http, nil, 'http://evil.example/api/stats')))
      assert.equal(200, (status_with(http, nil, 'http://evil.example/health/live')))
      assert.equal(403, (status_with(http, { Origin = 'http://evil.example' }, 'http://localhost/api/stats')))
      for _, target in ipairs { 'http:///api/stats', 'http://127.0.0.1:1@evil.example/', 'ftp://localhost/' } do
        assert.equal(400, (status_with(Http.connect(broker), nil, target)), target)
      end
    end)

    it('takes any name when users are defined', function()
      broker = users.start({ anna = { tags = { 'monitor' } } }, { http = '127.0.0.1:0' })
      local http = Http.connect(broker, { user = 'anna', password = users.password })
      assert.equal(200, (status_with(http, { Host = 'broker.example' })))
      assert.equal(403, (status_with(http, { Host = 'broker.example', Origin = 'http://evil.example' })))
    end)

    it('answers pages of the origins that it is started with', function()
      local app = 'https://app.example:8443'
      local http = start { args = { '--http-origin', app, '--http-origin', 'http://localhost:3000' } }
      local function asked(origin, method, path, headers)
        headers = headers or {}
        headers.Origin = origin
        return http:request(method or 'GET', path or '/api/stats', nil, headers)
      end
      for _, origin in ipairs { app, 'http://localhost:3000' } do
        local answer = asked(origin)
        assert.equal(200, answer.status)
        assert.equal(origin, answer.headers['access-control-allow-origin'])
        assert.equal('true', answer.headers['access-control-allow-credentials'])
        assert.equal('Origin', answer.headers.vary)
      end
      -- An error can be read, too.
      local missing = asked(app, 'GET', '/api/vhosts/%2F/queues/none')
      assert.same({ 404, app }, { missing.status, missing.headers['access-control-allow-origin'] })
      for _, origin in ipairs { 'http://app.example:8443', 'https://app.example', 'https://app.example:8443.evil',
        'null' } do
        local answer = asked(origin)
        assert.equal(403, answer.status, origin)
        assert.is_nil(answer.headers['access-control-allow-origin'])
      end
      local own = http:get '/api/stats'
      assert.is_nil(own.headers['access-control-allow-origin'])
      assert.equal('Origin', own.headers.vary)
      -- Before a request that changes something a browser asks whether it may.
      local wanted = { ['Access-Control-Request-Method'] = 'PUT',
        ['Access-Control-Request-Headers'] = 'authorization, content-type' }
      local preflight = asked(app, 'OPTIONS', '/api/vhosts/%2F/queues/q', wanted)
      assert.equal(204, preflight.status)
      assert.equal(app, preflight.headers['access-control-allow-origin'])
      assert.matches('PUT', preflight.headers['access-control-allow-methods'])
      assert.matches('Authorization, Content%-Type', preflight.headers['access-control-allow-headers'])
      assert.is_nil(preflight.headers['content-length'])
      assert.equal(403, asked('https://evil.example', 'OPTIONS', '/api/vhosts/%2F/queues/q', wanted).status)
      assert.equal(405, http:request('OPTIONS', '/api/vhosts/%2F/queues/q').status)
      assert.equal(200, asked(app, 'GET', '/api/stats').status)
    end)

    it('answers any page when it is told to, without the passwords that a browser knows', function()
      broker = Broker.start { http = '127.0.0.1:0', redis = {}, stopped = true,
        args = { '--http-origin', '*', '--http-origin', 'https://app.example' } }
      users.restore(broker.redis, { anna = { tags = { 'monitor' } } })
      broker:run()
      local stranger = Http.connect(broker)
      local wanted = { Origin = 'http://x', ['Access-Control-Request-Method'] = 'GET' }
      local preflight = stranger:request('OPTIONS', '/api/stats', nil, wanted)
      assert.same({ 204, '*' }, { preflight.status, preflight.headers['access-control-allow-origin'] })
      local refused = stranger:get('/api/stats', { Origin = 'http://x' })
      assert.same({ 401, '*' }, { refused.status, refused.headers['access-control-allow-origin'] })
      local http = Http.connect(broker, { user = 'anna', password = users.password })
      local answer = http:get('/api/stats', { Origin = 'http://x' })
      assert.same({ 200, '*' }, { answer.status, answer.headers['access-control-allow-origin'] })
      assert.is_nil(answer.headers['access-control-allow-credentials'])
      answer = http:get('/api/stats', { Origin = 'https://app.example' })
      assert.equal('true', answer.headers['access-control-allow-credentials'])
    end)

    it('is not started with what is no origin', function()
      for _, wrong in ipairs { 'app.example', 'https://app.example/', 'https://*.example', 'null' } do
        local out, status = require('support.shell').run(("'%s' serve --http-origin '%s' 2>&1"):format(
          Broker.binary(), wrong))
        assert.equal(2, status, wrong)
        assert.matches('%-%-http%-origin must be like https://app.example:8443, without a path, or %*; not', out)
      end
    end)

    it('takes bodies as JSON alone', function()
      local http = start()
      local path = '/api/vhosts/%2F/queues/jobs'
      assert.equal(415, http:request('PUT', path, '{}').status)
      assert.equal(415, http:request('PUT', path, '{}', { ['Content-Type'] = 'text/plain' }).status)
      assert.equal(415, http:request('PUT', path, '{}', { ['Content-Type'] = 'application/jsonx' }).status)
      local typed = { ['Content-Type'] = 'application/json; charset=utf-8' }
      assert.is_true(http:request('PUT', path, '{}', typed).status < 300)
    end)
  end)

  describe('has limits:', function()
    it('of the head of a request', function()
      local http = start()
      local answer = http:request('GET', '/api/stats', nil, { ['X-Long'] = ('x'):rep(40000) })
      assert.is_true(answer.status == 431 or answer.status == 413, tostring(answer.status))
      http = Http.connect(broker)
      assert.is_true(http:request('GET', '/' .. ('x'):rep(40000)).status >= 400)
    end)

    it('of a body, told before it has come', function()
      local http = start { args = { '--max-payload', '1M' } }
      local max = (1 << 20) * 3 // 2 + (64 << 10)
      local path, json = '/api/vhosts/%2F/queues/jobs', { ['Content-Type'] = 'application/json' }
      json['Content-Length'] = max + 1
      http:send('PUT', path, nil, json)
      local answer = http:answer()
      assert.equal(413, answer.status)
      assert.equal(('the body exceeds the limit of %d bytes'):format(max), answer.json.error.text)
      http.client:expect_closed()
      -- In chunks nobody says it before.
      http = Http.connect(broker)
      http:send('PUT', path, nil, { ['Content-Type'] = 'application/json', ['Transfer-Encoding'] = 'chunked' })
      local piece = ('10000\r\n%s\r\n'):format((' '):rep(0x10000))
      for _ = 1, max // 0x10000 + 1 do http.client:send(piece) end
      http.client:send '0\r\n\r\n'
      assert.equal(413, http:answer().status)
      http:expect(200, 'GET', '/api/stats')
    end)

    it('of the values in a body, which take more memory than their text', function()
      local http = start()
      local path, typed = '/api/vhosts/%2F/exchanges/-/publish', { ['Content-Type'] = 'application/json' }
      local answer = http:request('POST', path, '{"messages":[' .. ('[],'):rep(250000) .. '[]]}', typed)
      assert.equal(413, answer.status)
      assert.equal('the body has more than 250000 arrays, objects and commas', answer.json.error.text)
      -- What stands in a text does not count.
      local text = ('[{,\\\\\\"'):rep(100000)
      assert.equal(200, http:request('POST', path, ('{"payload":"%s"}'):format(text), typed).status)
    end)

    it('of what the length of a body may be taken for', function()
      start()
      local head = 'POST /api/vhosts/%2F/exchanges/-/publish HTTP/1.1\r\nHost: localhost\r\n'
        .. 'Content-Type: application/json\r\n'
      for _, frame in ipairs {
        'Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}', 'Content-Length: 0\r\nContent-Length: 2\r\n\r\n{}',
        'Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n', 'Transfer-Encoding: gzip\r\n\r\n{}',
        'Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n',
      } do
        local http = Http.connect(broker)
        http.client:send(head .. frame)
        local answer = http:answer()
        assert.equal(400, answer.status, frame)
        assert.equal('a body has one Content-Length, or Transfer-Encoding: chunked and no length',
          answer.json.error.text)
        http.client:expect_closed()
      end
    end)

    it('of the time that a request takes to come', function()
      start { args = { '--http-timeout', '1s' } }
      local drip = Client.connect(broker.http_address)
      drip:send 'GET /api/stats HTTP/1.1\r\nHost: localhost\r\nX-Drip: '
      local http = Http.connect(broker)
      assert.is_truthy(wait.poll(function()
        if not drip.is_closed then pcall(drip.send, drip, 'x') end
        http:expect(200, 'GET', '/api/stats')
        return drip:is_ended()
      end))
      -- Nor is one that has sent its next request while this one waits.
      local waiting = Http.connect(broker)
      waiting:expect(200, 'PUT', '/api/vhosts/%2F/queues/jobs', {})
      waiting:send('POST', '/api/vhosts/%2F/queues/jobs/get', { wait = '3s' })
      waiting:send('GET', '/api/whoami')
      assert.same({ messages = {} }, waiting:answer().json)
      assert.equal(200, waiting:answer().status)
      -- One that is idle between two requests is not slow.
      http:expect(200, 'GET', '/api/stats')
    end)

    it('of connections, like any port', function()
      local one = start { args = { '--max-connections', '2' } }
      local two = broker:connect()
      one:expect(200, 'GET', '/api/stats')
      two:ok 'PING'
      local three = Http.connect(broker)
      local answer = three:answer()
      assert.equal(503, answer.status)
      assert.equal('limit', answer.json.error.code)
      assert.equal('the limit of 2 connections is reached', answer.json.error.text)
      three.client:expect_closed()
      two:ok 'PING'
    end)

    it('of descriptors, of which a connection has one', function()
      start { files = 120 }
      local list = {}
      broker:connect():ok 'PING'
      for i = 1, 40 do
        list[i] = Http.connect(broker)
        assert.equal(200, list[i]:get('/health/live').status)
      end
    end)

    it('of wrong passwords', function()
      broker = users.start({ anna = { tags = { 'monitor' } } }, { http = '127.0.0.1:0' })
      local list = {}
      for i = 1, 6 do
        list[i] = Http.connect(broker, { user = 'anna', password = 'wrong' })
        list[i]:send('GET', '/api/stats')
      end
      for i = 1, 6 do assert.equal(401, list[i]:answer().status) end
      local http = Http.connect(broker, { user = 'anna', password = users.password })
      local logins = http:expect(200, 'GET', '/api/stats').logins
      assert.equal(6, logins.refused)
    end)
  end)

  it('is refused where others reach it, while nobody must log in', function()
    local none, log, status = Broker.start { http = '0.0.0.0:0', may_fail = true }
    assert.is_nil(none)
    assert.equal(1, status)
    assert.matches('tidemq: others can reach 0%.0%.0%.0:0, and no user is defined', log)
    broker = nil
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
    -- Who leaves in the middle of a request is forgotten.
    for _, text in ipairs {
      'PUT /api/vhosts/%2F/queues/q HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n'
        .. 'Content-Type: application/json\r\n\r\n{',
      'GET /api/stats HTTP/1.1\r\nHost: local',
    } do
      local part = Client.connect(broker.http_address)
      part:send(text)
      part:shutdown()
      assert.equal('closed', part:expect_closed())
    end
    local half = Client.connect(broker.http_address)
    half:send 'GET / HT'
    half:shutdown()
    assert.equal('closed', half:expect_closed())
  end)
end)
