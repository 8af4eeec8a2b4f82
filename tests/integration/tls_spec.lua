-- Listeners with TLS: --listen tls:HOST:PORT.
local Broker = require 'support.broker'
local Certs = require 'support.certs'
local Client = require 'support.client'
local shell = require 'support.shell'
local users = require 'support.users'
local wait = require 'support.wait'

describe('a listener with TLS', function()
  local tls = Certs.fixture()
  local certs, broker

  before_each(function() certs = tls.certs end)

  local function start(args)
    broker = tls.start { args = args }
    return broker
  end

  local function connection(c)
    local name = 'test-' .. tostring(c):match '0x(%x+)'
    c:document('HELLO name=' .. name)
    for _, row in ipairs(c:document 'LIST connections') do
      if row.name == name then return row end
    end
  end

  local function subject(c)
    return c.sock:getpeercertificate():subject()[1].value
  end

  it('speaks the same protocol', function()
    start()
    assert.matches('^tls:127%.0%.0%.1:%d+$', broker.addresses[1])
    broker:expect_log 'info  TLS: using the certificate of server, valid until %d+%-%d+%-%d+ %d+:%d+ UTC\n'
    local c = broker:connect()
    local row = connection(c)
    assert.equal('TLSv1.3', row.tls)
    assert.equal('TLS_AES_256_GCM_SHA384', row.cipher)
    assert.is_nil(row.certificate)
    assert.is_nil(connection(broker:connect(2)).tls)
    c:ok 'DECLARE queue jobs'
    c:ok('PUB - jobs', 'hello')
    assert.equal('hello', c:get('jobs ack=auto')[1].payload)
    c:send 'QUIT\r\n'
    c:expect_line 'OK'
    assert.equal('closed', c:expect_closed())
    broker:expect_clean_stop()
  end)

  it('lets a payload wait for memory, and gives up those that have stopped', function()
    start { '--store', 'none', '--max-memory', '1M', '--write-timeout', '1s' }
    local stopped, c, plain = {}, broker:connect(), broker:connect(2)
    for i = 1, 4 do stopped[i] = broker:connect():send('PUB - q 16777216\r\n' .. ('x'):rep(500000)) end
    assert(wait.poll(function() return plain:document 'STATS'.memory_bytes >= 2000000 end))
    c:send('PUB - q 200000\r\n' .. ('x'):rep(200000) .. '\r\n')
    c:expect '^OK %x+ 0$'
    for i = 1, 4 do stopped[i]:expect_line 'EVT closed busy the rest of a payload did not arrive' end
    broker:expect_clean_stop()
  end)

  it('carries large payloads, and many small ones, both ways', function()
    start { '--fsync', 'no' }
    local c, plain = broker:connect(), broker:connect(2)
    local large = ('0123456789abcdef'):rep(1 << 18) -- 4 MiB
    c:ok 'DECLARE queue jobs'
    c:ok('PUB - jobs', large)
    plain:ok('PUB - jobs', large)
    for _, other in ipairs { plain, c } do
      assert.is_true(other:get('jobs ack=auto')[1].payload == large)
    end
    c:ok 'SUB jobs s1 ack=auto'
    local lines = {}
    for i = 1, 20000 do lines[i] = ('PUB - jobs quiet 5\r\n%05d\r\n'):format(i) end
    c:send(table.concat(lines))
    for i = 1, 20000 do
      local payload = c:expect_msg().payload
      if payload ~= ('%05d'):format(i) then error(('%s in place of %05d'):format(payload, i)) end
    end
    c:expect_nothing()
  end)

  it('takes a request in records of any size', function()
    start()
    local c = broker:connect()
    for byte in ('DECLARE queue jobs\r\nPUB - jobs 5\r\nhello\r\n'):gmatch '.' do c:send(byte) end
    c:expect_line 'OK'
    c:expect '^OK %x+ 1$'
  end)

  it('carries STOMP as well', function()
    start()
    local c = broker:connect()
    c:send 'CONNECT\naccept-version:1.2\nhost:/\n\n\0'
    local text = ''
    assert(wait.poll(function()
      text = text .. (select(3, c.sock:receive(100)) or '')
      return text:find('\0', 1, true)
    end), text)
    assert.matches('^CONNECTED\n.*version:1.2\n', text)
    local peer = broker:connect(2)
    local row
    for _, each in ipairs(peer:document 'LIST connections') do row = each.tls and each or row end
    assert.equal('stomp', row.protocol)
  end)

  it('waits for a client that does not read', function()
    start { '--fsync', 'no' }
    local c, publisher = broker:connect(), broker:connect(2)
    local payload = ('x'):rep(100000)
    c:ok 'DECLARE queue jobs durable=0'
    c:ok 'SUB jobs s1 ack=auto'
    for _ = 1, 300 do publisher:ok('PUB - jobs', payload) end
    local row
    for _, each in ipairs(publisher:document 'LIST connections') do row = each.tls and each or row end
    assert.is_true(row.output < 4 * 1024 * 1024, row.output)
    assert.is_true(publisher:stats('jobs').ready > 100)
    for _ = 1, 300 do assert.equal(#payload, #c:expect_msg().payload) end
  end)

  it('speaks TLS 1.2 and no older version', function()
    start()
    local row = connection(broker:connect(1, { cafile = certs:cert 'ca', protocol = 'tlsv1_2' }))
    assert.equal('TLSv1.2', row.tls)
    assert.matches('^ECDHE%-ECDSA%-.*GCM', row.cipher)
    local port = broker.address:match ':(%d+)$'
    local output = shell.run('openssl s_client -tls1_1 -cipher DEFAULT@SECLEVEL=0 -connect 127.0.0.1:' .. port
      .. ' 2>&1 </dev/null')
    assert.matches('alert protocol version', output)
    broker:expect_log '127.0.0.1:%d+: TLS: the other side has no version from TLS 1.2 on'
  end)

  it('resumes sessions', function()
    start()
    local port, ticket = broker.address:match ':(%d+)$', broker.dir .. '/ticket'
    local command = '{ echo PING; echo QUIT; } | timeout ' .. wait.limit(20) .. ' openssl s_client -ign_eof '
      .. '-connect 127.0.0.1:' .. port .. ' -CAfile ' .. certs:cert 'ca' .. ' %s ' .. ticket .. ' 2>&1'
    assert.matches('New, TLSv1.3', shell.run(command:format '-sess_out'))
    assert.matches('Reused, TLSv1.3', shell.run(command:format '-sess_in'))
  end)

  it('tells a client without TLS what it needs', function()
    start()
    local c = Client.connect(broker.address)
    c:send 'HELLO user=x pass=secret\r\n'
    c:expect_line 'ERR syntax this port speaks TLS: connect with tides://HOST:PORT'
    c:expect_closed()
    broker:expect_log "warn  127.0.0.1:%d+: TLS: the other side does not speak TLS: it began with 'HELLO'\n"
    assert.is_nil(broker:log():find 'secret')
  end)

  it('is not where TLS goes when it has none', function()
    start()
    local c = Client.connect(broker.addresses[2])
    c:send '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03'
    c:expect_line 'ERR syntax this port does not speak TLS: connect with tide://HOST:PORT'
    c:expect_closed()
  end)

  it('ends a handshake that takes too long', function()
    start { '--handshake-timeout', '500ms' }
    local silent, half = Client.connect(broker.address), Client.connect(broker.address)
    half:send '\x16\x03\x01\x02\x00\x01\x00'
    local other = broker:connect()
    silent:expect_closed()
    half:expect_closed()
    broker:expect_log 'TLS: the handshake takes longer than %-%-handshake%-timeout'
    other:ok 'PING'
  end)

  it('survives bytes that are no TLS', function()
    start()
    for _, bytes in ipairs { '\x16', '\x16\x03\x01\xff\xff' .. ('x'):rep(70000), '\x16\x03\x01\x00\x04\x01\x00\x00\x00',
      ('\x16\x03\x01\x00\x01\x01'):rep(5000), '\x16' .. ('\0'):rep(300000) } do
      local c = Client.connect(broker.address)
      c.sock:settimeout(wait.limit())
      c.sock:send(bytes)
      c:close()
    end
    broker:connect():ok 'PING'
    broker:expect_clean_stop()
  end)

  it('tells its clients when the broker stops', function()
    start()
    local c = broker:connect()
    c:ok 'PING'
    broker:signal 'TERM'
    c:expect_line 'EVT closed shutdown the broker is stopping'
    assert.equal('closed', c:expect_closed())
    broker:expect_clean_stop()
  end)

  describe('verifies clients', function()
    local function as(name)
      return { cafile = certs:cert 'ca', certificate = certs:cert(name), key = certs:key(name) }
    end

    it('that must have a certificate', function()
      certs:issue 'alice'
      start { '--tls-ca', certs:cert 'ca', '--tls-client', 'required' }
      assert.equal('alice', connection(broker:connect(1, as 'alice')).certificate)
      -- With TLS 1.3 the client learns of it by its first read.
      broker:connect():expect_closed()
      broker:expect_log 'TLS: the other side gave no certificate, and one is required'
      certs:issue('other', { is_ca = true })
      certs:issue('mallory', { by = 'other', cn = 'alice' })
      broker:connect(1, as 'mallory'):expect_closed()
    end)

    it('that may have one', function()
      certs:issue 'alice'
      certs:issue('other', { is_ca = true })
      certs:issue('mallory', { by = 'other', cn = 'alice' })
      start { '--tls-ca', certs:cert 'ca', '--tls-client', 'wanted' }
      assert.equal('alice', connection(broker:connect(1, as 'alice')).certificate)
      assert.is_nil(connection(broker:connect()).certificate)
      broker:connect(1, as 'mallory'):expect_closed()
      broker:expect_log "TLS: the other side's certificate is not accepted: unable to get local issuer certificate"
    end)
  end)

  it('takes a certificate in place of a password, if it is told to', function()
    certs:issue 'alice'
    certs:issue 'nobody'
    local function connect(name)
      return broker:connect(1, { cafile = certs:cert 'ca', certificate = certs:cert(name), key = certs:key(name) })
    end
    local function run(args)
      broker = tls.start { redis = {}, stopped = true,
        args = { '--tls-ca', certs:cert 'ca', '--tls-client', 'wanted', table.unpack(args) } }
      users.restore(broker.redis, {
        alice = { tags = { 'admin' }, vhosts = { ['/'] = { configure = '.*', write = '.*', read = '.*' } } }, bob = {},
      })
      broker:run()
    end
    run { '--tls-user' }
    local c = connect 'alice'
    assert.equal('ERR denied log in first: HELLO user=<name> pass=<password>', c:request 'DECLARE queue jobs')
    c:document 'HELLO'
    c:ok 'DECLARE queue jobs'
    assert.equal('alice', c:document 'LIST connections'[1].user)
    -- The name may be given, and no other one.
    connect 'alice':document 'HELLO user=alice'
    assert.matches('^ERR denied', connect 'alice':request 'HELLO user=bob')
    assert.matches('^ERR denied', connect 'nobody':request 'HELLO')
    assert.matches('^ERR denied', broker:connect():request 'HELLO user=alice')
    broker:destroy()
    run {}
    assert.matches('^ERR denied', connect 'alice':request 'HELLO user=alice')
    connect 'alice':document 'HELLO user=alice pass=secret'
  end)

  describe('takes other files at SIGHUP', function()
    it('for new connections', function()
      start()
      local old = broker:connect()
      assert.equal('server', subject(old))
      certs:issue('server', { cn = 'another' })
      broker:signal 'HUP'
      broker:expect_log 'TLS: now using the certificate of another, valid until'
      assert.equal('another', subject(broker:connect()))
      old:ok 'DECLARE queue jobs'
      old:ok('PUB - jobs', 'x')
    end)

    it('unless they are broken', function()
      start()
      local key = shell.read_file(certs:key 'server')
      certs:issue('other', { cn = 'other' })
      shell.write_file(certs:key 'server', shell.read_file(certs:key 'other'))
      broker:signal 'HUP'
      broker:expect_log ("error TLS: the key '[^']*server.key' does not match the certificate '[^']*server.pem'; "
        .. 'the old certificate stays in use')
      assert.equal('server', subject(broker:connect()))
      shell.write_file(certs:key 'server', key)
      broker:signal 'HUP'
      broker:expect_log 'TLS: now using the certificate of server'
    end)
  end)

  it('is refused at the start without what it needs', function()
    local function refused(args, pattern, listen)
      listen = listen or { 'tls:127.0.0.1:0', '127.0.0.1:0' }
      local b, why, status = Broker.start { listen = listen, args = args, may_fail = true }
      assert.is_nil(b)
      assert.equal(1, status)
      assert.matches(pattern, why)
    end
    local files = { '--tls-cert', certs:cert 'server', '--tls-key', certs:key 'server' }
    refused({}, '^tidemq: an address with tls: needs %-%-tls%-cert and %-%-tls%-key\n')
    refused({ '--tls-cert', certs:cert 'server' }, 'needs %-%-tls%-cert and %-%-tls%-key\n')
    refused({ '--tls-cert', '/nowhere', '--tls-key', certs:key 'server' },
      "^tidemq: TLS: cannot read the certificate '/nowhere': No such file or directory\n")
    refused({ '--tls-cert', certs:cert 'server', '--tls-key', certs:key 'ca' },
      "^tidemq: TLS: the key '.*' does not match the certificate '.*'\n")
    refused({ '--tls-client', 'required', table.unpack(files) },
      '^tidemq: %-%-tls%-client needs %-%-tls%-ca, to verify clients with\n')
    refused(files, "^tidemq: 'nowhere' is not an address: expected HOST:PORT, .*tls:HOST:PORT", { 'tls:nowhere' })
  end)

  it('has a certificate that is valid, or says so', function()
    local key, cert = certs:key 'server', certs:cert 'server'
    assert.equal(0, select(2, shell.run(('openssl x509 -in %s -signkey %s -days 0 -out %s.new 2>&1 && mv %s.new %s')
      :format(cert, key, cert, cert, cert))))
    start()
    broker:expect_log 'warn  TLS: the certificate is not valid now: clients will refuse it'
  end)
end)
