-- Redis over TLS: --store rediss://.
local Broker = require 'support.broker'
local Certs = require 'support.certs'
local Cluster = require 'support.cluster'
local Redis = require 'support.redis'

describe('a Redis with TLS', function()
  local certs, redis, broker

  before_each(function() certs = Certs.make() end)

  after_each(function()
    if broker then broker:destroy() end
    if redis then redis:destroy() end
    certs:destroy()
    broker, redis = nil, nil
  end)

  local function start(url)
    local why, status
    broker, why, status = Broker.start { args = { '--store', url }, may_fail = true }
    return broker, why, status
  end

  local function refused(url, pattern)
    local b, why, status = start(url)
    assert.is_nil(b)
    assert.equal(1, status)
    assert.matches(pattern, why:match '[^\n]*\n$')
    return why
  end

  it('keeps messages, large ones too, and is connected to again', function()
    redis = Redis.start({ '--appendfsync', 'always' }, certs)
    start(redis.tls_url)
    local c = broker:connect()
    local large = ('0123456789abcdef'):rep(200000)
    c:ok 'DECLARE queue jobs'
    c:ok('PUB - jobs', 'small')
    c:ok('PUB - jobs', large)
    for i = 1, 2000 do c:send(('PUB - jobs quiet 4\r\n%04d\r\n'):format(i)) end
    c:ok('PUB - jobs', 'last')
    local before = redis:cli('CLIENT', 'LIST', 'TYPE', 'normal')
    redis:cli('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
    broker:expect_log 'lost Redis at localhost:%d+: Redis closed the connection; reconnecting'
    c:ok('PUB - jobs', 'after')
    broker:expect_log 'Redis .* at localhost:%d+, append%-only, fsync always is back'
    assert.is_not.equal(before, redis:cli('CLIENT', 'LIST', 'TYPE', 'normal'))
    -- A new process finds all of it there.
    broker:restart()
    c = broker:connect()
    assert.equal(2004, c:stats('jobs').ready)
    local messages = c:get 'jobs max=3'
    assert.equal('small', messages[1].payload)
    assert.is_true(large == messages[2].payload)
    assert.equal('0001', messages[3].payload)
    c:close()
    broker:expect_clean_stop()
  end)

  it('is refused at the start when it is not the one that is meant', function()
    redis = Redis.start(nil, certs)
    local port = redis.tls_url:match ':(%d+)%?'
    certs:issue('other', { is_ca = true })
    refused(('rediss://localhost:%d?ca=%s'):format(port, certs:cert 'other'),
      "^tidemq: Redis at localhost:%d+: the other side's certificate is not accepted: self%-signed certificate in")
    refused(('rediss://localhost:%d'):format(port),
      "^tidemq: Redis at localhost:%d+: the other side's certificate is not accepted: self%-signed certificate in")
    refused(('rediss://127.0.0.2:%d?ca=%s'):format(port, certs:cert 'ca'),
      '^tidemq: Redis at 127.0.0.2:%d+: connection refused')
    refused('rediss://localhost:1?ca=/nowhere.pem',
      "^tidemq: Redis at localhost:1: cannot read the CA certificate '/nowhere.pem': No such file or directory")
    refused(('rediss://u:secret@localhost:%d?ca=%s'):format(port, certs:cert 'ca'),
      '^tidemq: Redis at localhost:%d+: .*WRONGPASS')
  end)

  it('must have the name that the URL has', function()
    certs:issue('server', { san = 'DNS:redis.example' })
    redis = Redis.start(nil, certs)
    refused(redis.tls_url,
      "^tidemq: Redis at localhost:%d+: the other side's certificate is not for 'localhost'")
  end)

  it('may ask for a certificate', function()
    certs:issue 'client'
    redis = Redis.start(nil, certs)
    refused(redis.tls_url,
      '^tidemq: Redis at localhost:%d+: the other side has ended TLS: it requires a certificate')
    start(('%s&cert=%s&key=%s'):format(redis.tls_url, certs:cert 'client', certs:key 'client'))
    broker:connect():ok 'DECLARE queue jobs'
  end)

  it('is not one that speaks no TLS', function()
    local port = Redis.free_port()
    redis = Redis.start { '--port', port, '--bind', '127.0.0.1' }
    -- Redis waits for more, and from version 8 on answers what it takes for a command.
    local why = refused('rediss://localhost:' .. port, '^tidemq: Redis at localhost:%d+: ')
    assert.is_truthy(why:find 'no answer to TLS %(is it a port with TLS%?%) within'
      or why:find "the other side does not speak TLS: it began with '%-ERR unknown command", why)
    redis:destroy()
    redis = Redis.start({}, certs)
    refused('redis://localhost:' .. redis.tls_url:match ':(%d+)%?',
      '^tidemq: Redis at localhost:%d+: .*connection')
  end)

  it('may have another certificate after an outage', function()
    redis = Redis.start(nil, certs)
    start(redis.tls_url)
    local c = broker:connect()
    c:ok 'DECLARE queue jobs'
    redis:cli 'SHUTDOWN'
    broker:expect_log 'reconnecting'
    certs:issue('ca', { is_ca = true })
    certs:issue 'server'
    redis:run()
    c:ok('PUB - jobs', 'x')
  end)
end)

describe('a Redis Cluster with TLS', function()
  local certs, cluster, broker

  before_each(function() certs = Certs.make() end)
  after_each(function()
    if broker then broker:destroy() end
    if cluster then cluster:close() end
    certs:destroy()
    broker, cluster = nil, nil
  end)

  local function slot_key(queue) return ('tide:{//%s#0}:msg'):format(queue) end

  --- No connection of the broker ends at a port without TLS.
  local function expect_tls_alone()
    local count = 0
    for _, node in ipairs(cluster:masters()) do
      for line in node:ok('CLIENT', 'LIST'):gmatch '[^\n]+ name=tidemq[^\n]+' do
        assert.equal(node.tls_port, tonumber(line:match ' laddr=%S+:(%d+) '))
        count = count + 1
      end
    end
    assert.is_true(count >= 3)
  end

  it('keeps its messages through failovers and a slot that moves', function()
    cluster = Cluster.start { certs = certs }
    broker = Broker.start { args = { '--store', cluster.url } }
    local c, queues, sent = broker:connect(), {}, 0
    for number = 1, math.huge do
      local queue = 'q' .. number
      if cluster:slot(slot_key(queue)) * 3 // 16384 == #queues then
        queues[#queues + 1] = queue
        c:ok('DECLARE queue ' .. queue)
      end
      if #queues == 3 then break end
    end
    local function send(count)
      for _ = 1, count do
        sent = sent + 1
        for _, queue in ipairs(queues) do c:send(('PUB - %s 6\r\n%06d\r\n'):format(queue, sent)) end
      end
    end
    local function expect_confirms(count)
      for _ = 1, count * #queues do c:expect('^OK %x+ 1$', 60) end
    end

    send(100)
    expect_confirms(100)
    expect_tls_alone()
    local old = cluster:master_of(slot_key(queues[1]))
    send(100)
    assert(cluster:failover(cluster:replica_of(old)))
    send(100)
    local killed = cluster:master_of(slot_key(queues[2]))
    killed:kill9()
    send(100)
    expect_confirms(300)
    broker:expect_log(('the slots of the master at 127.0.0.1:%d are those of'):format(killed.tls_port))
    cluster:heal()
    local from, to = cluster:master_of(slot_key(queues[1])), cluster:master_of(slot_key(queues[3]))
    send(100)
    cluster:migrate_slot(slot_key(queues[1]), from, to)
    send(100)
    expect_confirms(200)
    assert.is_true(to:ok('HLEN', slot_key(queues[1])) > 0)
    expect_tls_alone()

    -- A new process finds all of it there.
    broker:restart()
    c = broker:connect()
    for _, queue in ipairs(queues) do
      local messages = c:get(queue .. ' max=1000')
      assert.equal(sent, #messages)
      for i, message in ipairs(messages) do assert.equal(i, tonumber(message.payload)) end
    end
  end)

  it('must have certificates for what its nodes call themselves', function()
    certs:issue('server', { san = 'DNS:localhost' })
    cluster = Cluster.start { certs = certs, replicas = 0 }
    broker = Broker.start { args = { '--store', cluster.url }, stopped = true }
    broker:launch()
    broker:expect_log "Redis at 127.0.0.1:%d+: the other side's certificate is not for '127.0.0.1'; trying again"
    for _, node in ipairs(cluster.nodes) do
      node:ok('CONFIG', 'SET', 'cluster-announce-hostname', 'localhost')
      node:ok('CONFIG', 'SET', 'cluster-preferred-endpoint-type', 'hostname')
    end
    broker:wait_ready()
    local c = broker:connect()
    c:ok 'DECLARE queue jobs shards=6'
    for i = 1, 6 do c:ok('PUB - jobs', tostring(i)) end
  end)
end)
