-- Brokers of one store: one owns it, the others are fronts, which pass their clients through to it.
local Broker = require 'support.broker'
local Certs = require 'support.certs'
local Client = require 'support.client'
local Cluster = require 'support.cluster'
local Http = require 'support.http'
local Redis = require 'support.redis'
local Stomp = require 'support.stomp'
local Websocket = require 'support.websocket'
local shell = require 'support.shell'
local traffic = require 'support.traffic'
local users = require 'support.users'
local wait = require 'support.wait'

describe('a front', function()
  local redis, brokers

  before_each(function()
    redis = Redis.start()
    brokers = {}
  end)

  after_each(function()
    for _, broker in ipairs(brokers) do broker:destroy() end
    redis:destroy()
  end)

  local function start(options, ...)
    options = options or {}
    options.args = { '--store', redis.url, '--cluster', options.cluster or '127.0.0.1:0', ... }
    options.cluster = nil
    options.http = options.http or '127.0.0.1:0'
    local broker = Broker.start(options)
    brokers[#brokers + 1] = broker
    return broker
  end

  local function gate_of(broker) return broker:stdout():match 'cluster on (%S+)' end

  local function brokers_at(broker)
    local c = broker:connect()
    local rows = c:document 'LIST brokers'
    c:close()
    return rows
  end

  -- Until it is known at the owner.
  local function start_front(options, ...)
    local front = start(options, ...)
    front:expect_log 'clients are passed through to the owner of the store at'
    return front
  end

  -- Who listens does not own the store yet: who answers does.
  local function start_owner(options, ...)
    local owner = start(options, ...)
    owner:expect_log 'recovered %d+ exchanges'
    owner:connect():send('PING\r\n'):expect '^%u+'
    return owner
  end

  local function pair(...)
    local owner = start_owner({}, '--node', '1', ...)
    return owner, start_front({}, '--node', '2', ...)
  end

  local function row_of(c, name)
    c:document('HELLO name=' .. name)
    for _, row in ipairs(c:document 'LIST connections') do
      if row.name == name then return row end
    end
  end

  it('speaks the line protocol for the owner, whatever the size of a payload', function()
    local owner, front = pair()
    local c, direct = front:connect(), owner:connect()
    local large = ('0123456789abcdef'):rep(500000)
    c:ok 'DECLARE queue jobs'
    c:ok('PUB - jobs', large)
    assert.is_true(large == direct:get('jobs')[1].payload)
    direct:ok('ACK 1')
    direct:ok('PUB - jobs', large)
    assert.is_true(large == c:get('jobs ack=auto')[1].payload)
    assert.equal(100, traffic.publish(c, 'jobs', 100))
    assert.equal(100, #traffic.take(c, 'jobs', 100))
    c:send 'QUIT\r\n'
    c:expect_line 'OK'
    c:expect_closed()
  end)

  it('shows the owner the addresses of its clients', function()
    local owner, front = pair()
    local c = front:connect()
    local host, port = c.sock:getsockname()
    local row = row_of(c, 'through')
    assert.equal(host .. ':' .. port, row.peer)
    assert.equal(2, row.via)
    assert.is_nil(row_of(owner:connect(), 'direct').via)
  end)

  it('answers a client that has closed its side', function()
    local _, front = pair()
    local c = front:connect()
    c:send 'DECLARE queue jobs\r\nPUB - jobs 1\r\nx\r\nGET jobs ack=auto\r\n'
    c:shutdown()
    c:expect_line 'OK'
    c:expect '^OK %x+ 1$'
    c:expect_line 'OK 1'
    assert.equal('x', c:expect_msg().payload)
    c:expect_closed()
  end)

  it('buffers little for a client that does not read', function()
    local owner, front = pair()
    local c = front:connect()
    c:ok 'DECLARE queue jobs'
    for _ = 1, 40 do c:ok('PUB - jobs', ('x'):rep(1000000)) end
    local slow, before = front:connect(), front:memory()
    slow:send 'SUB jobs s1 prefetch=40\r\n'
    local function unacked() return owner:connect():stats('jobs').unacked end
    local last
    assert(wait.poll(function()
      local now = unacked()
      local is_still = now > 1 and now == last
      last = now
      return is_still
    end))
    assert.is_true(last < 40)
    front:expect_memory_below(before + 12e6)
    slow:expect_line 'OK'
    for _ = 1, 40 do assert.equal(1000000, #slow:expect_msg().payload) end
  end)

  it('speaks STOMP, HTTP and WebSocket', function()
    local _, front = pair()
    local s = Stomp.connect(front)
    s:ask('SEND', { destination = '/queue/jobs' }, 'by stomp')
    local http = Http.connect(front)
    for i = 1, 3 do
      http:expect(200, 'POST', '/api/vhosts/%2F/exchanges/-/publish', { key = 'jobs', payload = 'by http ' .. i })
    end
    assert.equal(4, http:get('/api/vhosts/%2F/queues/jobs').json.ready)
    assert.equal(200, http:get('/health/ready').status)
    local ws = Websocket.connect(front)
    ws:send 'CONNECT\naccept-version:1.2\nhost:/\n\n\0'
    ws:expect '^CONNECTED\n'
    ws:send 'SUBSCRIBE\nid:1\ndestination:/queue/jobs\nack:auto\n\n\0'
    ws:expect 'by stomp'
    ws:expect 'by http 1'
  end)

  it('ends the TLS of its clients, and tells the owner of it', function()
    local certs = Certs.make()
    certs:issue 'client'
    local owner = start_owner({}, '--node', '1')
    local front = start_front({ listen = { 'tls:127.0.0.1:0', '127.0.0.1:0' }, certs = certs }, '--node', '2',
      '--tls-ca', certs:cert 'ca', '--tls-client', 'wanted')
    local mine = { cafile = certs:cert 'ca', certificate = certs:cert 'client', key = certs:key 'client' }
    local c = front:connect(1, mine)
    local row = row_of(c, 'secret')
    assert.equal('TLSv1.3', row.tls)
    assert.equal('client', row.certificate)
    assert.is_nil(row_of(front:connect(2), 'plain').tls)
    -- One that waits while no owner is there has its TLS all the same.
    owner:signal 'STOP'
    local waiting = front:connect(1)
    owner:kill9()
    waiting:ok 'DECLARE queue jobs'
    certs:destroy()
  end)

  it('reaches an owner by TLS, whose certificate it verifies', function()
    local certs = Certs.make()
    local tls = { cluster = 'tls:127.0.0.1:0', certs = certs }
    start_owner({ cluster = tls.cluster, certs = certs }, '--tls-ca', certs:cert 'ca')
    local front = start_front({ cluster = tls.cluster, certs = certs }, '--tls-ca', certs:cert 'ca')
    local c = front:connect()
    local large = ('0123456789abcdef'):rep(200000)
    c:ok 'DECLARE queue jobs'
    c:ok('PUB - jobs', large)
    assert.is_true(large == c:get('jobs ack=auto')[1].payload)
    -- Its own authority is another one.
    local others = Certs.make()
    local wrong = start({ cluster = tls.cluster, certs = certs }, '--tls-ca', others:cert 'ca')
    wrong:expect_log 'the owner of the store at tls:.* cannot be reached: .*certificate'
    certs:destroy()
    others:destroy()
  end)

  it('serves the client libraries', function()
    local _, front = pair()
    front:connect():ok 'DECLARE queue jobs'
    local out, status = front:cli('bench', '--count', 5000)
    assert.equal(0, status, out)
    -- A broker behind a front for each test of the Python library.
    out, status = shell.run(('TIDEMQ_BEHIND=%s TIDEMQ=tests/integration/support/front.sh '
      .. 'PYTHONPATH=examples/python:tests/python timeout %d python3 -B -W error -m unittest test_client.Publishing '
      .. 'test_client.Consuming 2>&1 </dev/null'):format(shell.quote(Broker.binary()), wait.limit(200)))
    assert(status == 0 and out:find '\nOK', out)
  end)

  it('lets the owner ask for logins, and limit addresses', function()
    users.restore(redis, {
      ann = { tags = { 'admin' }, vhosts = { ['/'] = { configure = '.*', write = '.*', read = '.*' } } },
      bob = { vhosts = { ['/'] = { read = '.*' } } },
    })
    local _, front = pair('--address-connections', '4')
    local c = users.stranger(front)
    c:send 'DECLARE queue jobs\r\n'
    c:expect '^ERR denied'
    users.connect(front, 'ann'):ok 'DECLARE queue jobs'
    users.connect(front, 'bob'):ok 'GET jobs'
    users.stranger(front)
    -- They count at the owner, by what the front has told.
    local fifth = users.stranger(front)
    fifth:expect '^ERR limit address 127.0.0.1 has reached %-%-address%-connections 4'
    fifth:expect_closed()
  end)

  it('that others reach needs users at the owner', function()
    local owner = start_owner({}, '--node', '1')
    local front = start({ listen = { '0.0.0.0:0' } }, '--node', '2')
    owner:expect_log 'closed: others can reach the front, and no user is defined: add one'
    front:expect_log 'cannot be reached: denied others can reach the front'
  end)

  -- Everything that a stranger may try at the port for brokers.
  describe('is known by the owner', function()
    local owner, gate

    before_each(function()
      owner = start_owner({}, '--node', '1', '--handshake-timeout', '1s')
      gate = gate_of(owner)
    end)

    local function stranger()
      local c = Client.connect(gate)
      local nonce = c:take(function(input) return input:match '^TIDE%-BROKER 1 (%x+)\n()' end)
      assert.equal(32, #nonce)
      return c, nonce
    end

    local function expect_refused(c, pattern)
      c:take(function(input)
        local line, rest = input:match '^([^\n]*)\n()'
        if line then assert.matches(pattern, line) end
        return line, rest
      end)
      c:expect_closed()
    end

    local function hello(words, secret, nonce)
      local tail = '1 ' .. ('0'):rep(32) .. ' ' .. words
      local proof = shell.line(("printf 'front %s %s' | openssl dgst -sha256 -hmac %s -r | cut -d' ' -f1"):format(
        nonce, tail, secret))
      return proof .. ' ' .. tail .. '\n'
    end

    it('who knows the secret, and tells who it is', function()
      local secret = redis:cli('HGET', '{tide}:cluster', 'secret')
      assert.equal(64, #secret)
      local c, nonce = stranger()
      c:send(hello('line node=7 broker=feed peer=192.0.2.7:1234 later=word', secret, nonce) .. 'HELLO name=far\r\n')
      c:take(function(input) return input:match '^OK (%x+)\n()' end)
      c:expect '^DATA'
      for _, row in ipairs(owner:connect():document 'LIST connections') do
        if row.name == 'far' then assert.equal('192.0.2.7:1234', row.peer) end
      end
      c, nonce = stranger()
      c:send(hello('line node=7 broker=feed', secret, nonce))
      expect_refused(c, '^ERR syntax the hello of a broker is broken')
      c, nonce = stranger()
      c:send(hello('queen node=7 broker=feed peer=x', secret, nonce))
      expect_refused(c, '^ERR syntax the hello of a broker is broken')
    end)

    it('and who does not is refused', function()
      local c, nonce = stranger()
      c:send(hello('line node=7 broker=feed peer=192.0.2.7:1234', 'guess', nonce))
      expect_refused(c, '^ERR denied this port is for brokers of the same store')
      owner:expect_log 'warn  127.0.0.1:%d+: closed: this port is for brokers of the same store'
      -- A proof is good for one connection.
      local secret = redis:cli('HGET', '{tide}:cluster', 'secret')
      local line = hello('line node=7 broker=feed peer=192.0.2.7:1234', secret, nonce)
      c = stranger()
      c:send(line)
      expect_refused(c, '^ERR denied')
      c = stranger()
      c:send 'HELLO name=me\r\n'
      expect_refused(c, '^ERR syntax brokers of version')
      c = stranger()
      c:send(('0'):rep(64) .. ' 3 0 line\n')
      expect_refused(c, '^ERR syntax brokers of version 3 and 1 of the link do not understand each other')
      c = stranger()
      c:send(('x'):rep(3000))
      expect_refused(c, '^ERR too%-long a line of a broker has at most 2048 bytes')
      c = stranger()
      c:send 'half a li'
      expect_refused(c, '^ERR busy no broker has said hello within %-%-handshake%-timeout')
      owner:connect():ok 'PING'
    end)
  end)

  it('is listed, with the owner, by each of them', function()
    local owner, front = pair()
    local third = start_front({}, '--node', '3')
    local c = third:connect()
    c:ok 'PING'
    local rows = wait.poll(function()
      local rows = brokers_at(front)
      return #rows == 3 and rows[3].clients == 1 and rows
    end)
    assert.equal('owner front front', rows[1].state .. ' ' .. rows[2].state .. ' ' .. rows[3].state)
    for i, broker in ipairs { owner, front, third } do
      assert.equal(i, rows[i].node)
      assert.equal(gate_of(broker), rows[i].at)
      assert.matches('^%d+%.%d+%.%d+$', rows[i].version)
    end
    local function places(broker)
      local all = {}
      for i, row in ipairs(brokers_at(broker)) do
        all[i] = ('%d %s %s %d'):format(row.node, row.state, row.at, row.since)
      end
      return all
    end
    assert.same(places(owner), places(front))
    assert.same(places(owner), places(third))
    assert.matches('\ntidemq_fronts 2\n', Http.connect(third):get('/metrics').body)
    third:kill9()
    assert(wait.poll(function() return #brokers_at(front) == 2 end))
    assert.matches('owner', (front:cli('list', 'brokers')))
  end)

  it('returns what its clients held when it is killed', function()
    local owner, front = pair()
    local c = front:connect()
    c:ok 'DECLARE queue jobs'
    c:ok('PUB - jobs', 'x')
    assert.equal('x', c:get('jobs')[1].payload)
    front:kill9()
    assert.equal('x', owner:connect():get('jobs wait=10s')[1].payload)
  end)

  it('lets the owner tell its clients when it ends in order', function()
    local owner, front = pair()
    local c, waiting = front:connect(), front:connect()
    c:ok 'DECLARE queue jobs'
    c:ok('PUB - jobs', 'x')
    assert.equal('x', c:get('jobs')[1].payload)
    waiting:send 'GET jobs wait=1m\r\n'
    local direct = owner:connect()
    assert(wait.poll(function() return #direct:document 'LIST consumers' == 1 end))
    front:expect_clean_stop()
    c:expect_line 'EVT closed shutdown the broker is stopping'
    c:expect_closed()
    waiting:drain_until '^EVT closed shutdown'
    local msg = owner:connect():get('jobs wait=10s')[1]
    -- To be at work on a message when the front ends is no failure of its consumer.
    assert.equal('x', msg.payload)
    assert.equal(1, #brokers_at(owner))
  end)

  -- The owner ends: its clients come back to the same address.
  local function take_over(how, seconds)
    local owner, front = pair()
    local other = start_front({}, '--node', '3')
    local c = front:connect()
    c:ok 'DECLARE queue jobs'
    assert.equal(200, traffic.publish(c, 'jobs', 200))
    owner:signal(how)
    c:drain_to_end(seconds)
    c = front:connect()
    c:send 'PUB - jobs 4\r\nlast\r\n'
    c:expect('^OK %x+ 1$', seconds)
    local all = traffic.take(other:connect(), 'jobs', 201)
    assert.equal(201, #all)
    local rows = wait.poll(function()
      local rows = brokers_at(other)
      return #rows == 2 and rows
    end)
    local states = { rows[1].state, rows[2].state }
    table.sort(states)
    assert.same({ 'front', 'owner' }, states)
    if how == 'STOP' then
      owner:signal 'CONT'
      assert.equal(1, wait.poll(function() return owner:exit_status() end, 30))
    end
  end

  it('takes over from an owner that is killed', function() take_over('KILL', 30) end)
  it('takes over from an owner that ends in order', function() take_over('TERM', 30) end)
  it('takes over from an owner that stands still', function() take_over('STOP', 60) end)

  it('keeps its address to itself, and lets nobody in there', function()
    local owner, front = pair()
    local at = gate_of(front)
    local broker, why, status = Broker.start { may_fail = true, args = { '--store', redis.url, '--cluster', at } }
    brokers[#brokers + 1] = broker
    assert.equal(1, status)
    assert.is_truthy(why:find('cannot listen on ' .. at .. ': address already in use', 1, true))
    local c = Client.connect(at)
    c:take(function(input) return input:match '^(ERR busy this broker does not own the store)\n()' end)
    c:expect_closed()
    assert.equal(2, #brokers_at(owner))
  end)

  it('works on a Redis Cluster', function()
    local cluster = Cluster.start { masters = 3 }
    finally(function() cluster:close() end)
    redis.url = cluster.url
    local owner, front = pair()
    local c = front:connect()
    c:ok 'DECLARE queue jobs shards=6'
    assert.equal(100, traffic.publish(c, 'jobs', 100))
    owner:kill9()
    c:drain_to_end()
    c = front:connect()
    c:ok('PUB - jobs', 'x')
    assert.equal(101, c:stats('jobs').ready)
  end)

  it('lets clients wait while nobody owns the store, and then says so', function()
    -- An older broker, or one without --cluster, cannot be reached.
    local owner = Broker.start { args = { '--store', redis.url } }
    brokers[#brokers + 1] = owner
    local front = start { stopped = true }
    front:launch()
    front:wait_ready()
    front:expect_log 'was started without %-%-cluster: clients cannot be passed through to it'
    local c, s, http = front:connect(), Stomp.open(front), Http.connect(front)
    s:frame('CONNECT', { ['accept-version'] = '1.2' })
    http:send('GET', '/api/stats')
    local words = 'the broker that owns the store lets no other in: start it with %-%-cluster'
    c:expect('^ERR busy ' .. words, 30)
    c:expect_closed()
    assert.matches(words, s:expect('ERROR', { code = 'busy' }).body)
    local answer = http:answer()
    assert.equal(503, answer.status)
    assert.equal('busy', answer.json.error.code or answer.json.code)
    -- Those that wait are its own when it owns the store itself.
    c = front:connect()
    c:send 'DECLARE queue jobs\r\n'
    owner:kill9()
    c:expect_line('OK', 30)
  end)

  it('needs a Redis that all brokers reach, and an address to be reached at', function()
    local function refused(...)
      local _, why, status = Broker.start { args = { ... }, may_fail = true }
      assert.is_true(status > 0)
      return why
    end
    assert.matches('%-%-cluster needs a Redis that all brokers reach', refused('--cluster', '127.0.0.1:0'))
    assert.matches('%-%-advertise needs %-%-cluster', refused('--store', redis.url, '--advertise', 'a:1'))
    for _, at in ipairs { 'a', 'a:0', 'a:65536', ':1', 'tls:a:1', 'unix:/a' } do
      assert.matches('%-%-advertise must be HOST:PORT or %[IPv6%]:PORT',
        refused('--store', redis.url, '--cluster', '127.0.0.1:0', '--advertise', at))
    end
    assert.matches('say by %-%-advertise HOST:PORT where other brokers reach this one',
      refused('--store', redis.url, '--cluster', '0.0.0.0:0'))
    local owner = start({ cluster = '0.0.0.0:0' }, '--advertise', '127.0.0.2:7312')
    -- It listens before it owns the store.
    assert(wait.poll(function() return redis:cli('HGET', '{tide}:holder', 'at') == '127.0.0.2:7312' end))
    local _, why, status = Broker.start { args = { '--store', redis.url }, may_fail = true }
    assert.equal(1, status)
    assert.matches('another broker holds this store: .*, with %-%-cluster it serves clients meanwhile', why)
    owner:expect_clean_stop()
  end)
end)
