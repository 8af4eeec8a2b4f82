-- A Redis that Sentinels watch: --store redis+sentinel://.
local Broker = require 'support.broker'
local Certs = require 'support.certs'
local Cluster = require 'support.cluster'
local Ledger = require 'chaos.support.ledger'
local Traffic = require 'chaos.support.traffic_ledger'
local Http = require 'support.http'
local Node = require 'support.redis_node'
local Redis = require 'support.redis'
local shell = require 'support.shell'
local wait = require 'support.wait'

describe('a Redis that Sentinels watch', function()
  local group, broker, c

  after_each(function()
    if broker then broker:destroy() end
    if group then group:close() end
    broker, group = nil, nil
  end)

  --- A master, a replica that has all of it, three Sentinels, and a broker.
  local function start(options, ...)
    group = Cluster.sentinels(options)
    broker = Broker.start { args = { '--store', group.url, ... }, http = '127.0.0.1:0' }
    c = broker:connect()
    c:ok 'DECLARE queue jobs'
  end

  local function store() return c:document('STATS').store end

  local function replica()
    local master = group:master()
    return group.nodes[group.nodes[1] == master and 2 or 1], master
  end

  --- What is confirmed by now is on both.
  local function wait_in_sync()
    local follower, master = replica()
    assert(wait.poll(function()
      return master:info('replication', 'master_repl_offset') == follower:info('replication', 'slave_repl_offset')
    end), 'the replica does not catch up')
  end

  local published
  local function send(count)
    for _ = 1, count do
      published = published + 1
      local text = ('%06d'):format(published)
      c:send(('PUB - jobs %d\r\n%s\r\n'):format(#text, text))
    end
  end
  local function expect_confirms(count)
    for _ = 1, count do c:expect('^OK %x+ 1$', 60) end
  end
  before_each(function() published = 0 end)

  --- Each message is there once, in the order of the publishes.
  local function expect_all()
    local reader = broker:connect()
    assert.equal(published, reader:stats('jobs').ready)
    local got = {}
    while #got < published do
      local messages = reader:get 'jobs max=200'
      assert.is_true(#messages > 0)
      for _, m in ipairs(messages) do got[#got + 1] = tonumber(m.payload) end
    end
    for i = 1, published do assert.equal(i, got[i]) end
    reader:close()
  end

  local function master_is(node)
    return wait.poll(function() return store().address == node.address and store().state == 'up' end, 60)
  end

  it('is followed through a failover, and what had no answer goes to the promoted one, in order', function()
    start()
    local follower, master = replica()
    local stats = store()
    assert.equal('sentinel', stats.kind)
    assert.equal(master.address, stats.address)
    assert.equal(3, stats.sentinels)
    broker:expect_log('min%-replicas%-to%-write 0: if it is cut off')
    send(300)
    expect_confirms(300)
    wait_in_sync()
    master:ok('CLIENT', 'PAUSE', 60000, 'WRITE')
    send(200)
    group:failover(60)
    expect_confirms(200)
    assert(master_is(follower))
    broker:expect_log('Redis at ' .. master.address .. ': the Sentinels name another master')
    expect_all()
    -- A new broker finds it too.
    broker:restart()
    c = broker:connect()
    assert.equal(follower.address, store().address)
    assert.equal(published, c:stats('jobs').ready)
  end)

  --- Take all that is left.
  local function drain(ledger)
    for _, queue in ipairs(Traffic.QUEUES) do
      local deadline = wait.deadline(60)
      repeat
        c:send(('GET %s max=500 wait=50ms\r\n'):format(queue.name))
        local n = tonumber((c:expect('^OK (%d+)$', 60)))
        local copies, first, last = {}, nil, nil
        for i = 1, n do
          local msg = c:expect_msg(60)
          copies[i] = ledger:seen(queue.name, msg.payload, {
            id = msg.options.id, pri = msg.options.pri or '0', exchange = msg.exchange, key = msg.key,
            headers = msg.headers,
          })
          first, last = first or msg.tag, msg.tag
        end
        if first then c:ok(('ACK %s-%s'):format(first, last)) end
        for _, copy in ipairs(copies) do ledger:removed(copy, queue.name) end
        local left = c:stats(queue.name)
        assert(wait.left(deadline) > 0, 'it is not empty')
      until left.ready + left.delayed + left.unacked + left.buried == 0
    end
    ledger:expect_nothing_lost()
  end

  -- Until the Sentinels tell of the new master, the old one takes writes.
  local function sentinel_failover() assert(group.watchers[1]:command('SENTINEL', 'FAILOVER', group.name)) end

  local function fail_over_under_load(level, begin_failover)
    start({}, '--confirm', level)
    local follower, master = replica()
    c:ok 'DELETE queue jobs'
    for _, queue in ipairs(Traffic.QUEUES) do
      c:ok((('DECLARE queue %s %s'):format(queue.name, queue.options):gsub(' $', '')))
    end
    local figures = {}
    local traffic = Traffic.new(Ledger.new(), figures)
    traffic:connect(broker)
    local function work_until(probe)
      assert(wait.poll(function()
        traffic:work(2)
        return probe()
      end, 60), broker:log())
    end
    work_until(function() return (figures.confirmed or 0) > 200 end)
    begin_failover(master)
    work_until(function() return store().address == follower.address end)
    if not master:is_running() then master:restart() end
    -- The Sentinels would do that ten seconds later.
    master:ok('REPLICAOF', '127.0.0.1', follower.port)
    local confirmed = figures.confirmed
    work_until(function() return figures.confirmed > confirmed + 200 end)
    traffic:close()
    drain(traffic.ledger)
    assert.is_nil(figures.refused)
  end

  it('loses nothing under load when an OK means that all replicas have it', function()
    fail_over_under_load('replicas=1', sentinel_failover)
  end)

  it('loses nothing under load though an OK means that the master alone has it', function()
    fail_over_under_load('master', sentinel_failover)
  end)

  it('loses nothing when the master is killed under load', function()
    fail_over_under_load('master', function(master) master:kill9() end)
  end)

  -- The replica that is to be promoted leaves first: the other one has all that is written meanwhile.
  it('loses nothing in an ordered failover with two replicas', function()
    start { replicas = 2 }
    local asked = 0
    local function publish()
      asked = asked + 1
      c:publish('jobs', ('%06d'):format(asked))
    end
    for _ = 1, 100 do publish() end
    local failover = assert(io.popen(('redis-cli -p %s sentinel failover tide'):format(group.url:match ':(%d+)')))
    failover:close()
    assert.is_truthy(wait.poll(function()
      publish()
      return broker:log():match 'connecting anew.*is back after'
    end, 60))
    assert.is_nil(broker:log():match 'are lost, and what it has is read anew')
    assert.equal(asked, c:stats('jobs').ready)
  end)

  it('may die, and come back as the master that it was', function()
    start()
    local follower, master = replica()
    send(100)
    expect_confirms(100)
    wait_in_sync()
    master:kill9()
    send(50)
    expect_confirms(50)
    assert(master_is(follower))
    master:restart()
    -- The Sentinels make it a replica ten seconds later. Who connects until then finds two masters.
    assert.equal('master', master:info('replication', 'role'))
    follower:ok('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
    broker:expect_log('lost Redis at ' .. follower.address)
    send(50)
    expect_confirms(50)
    assert.equal(follower.address, store().address)
    expect_all()
  end)

  it('is followed by a standby too, which takes over there', function()
    start()
    local follower, master = replica()
    local standby = Broker.start { args = { '--store', group.url, '--standby' }, stopped = true }
    finally(function() standby:destroy() end)
    standby:launch()
    standby:expect_log 'another broker holds it: .*standing by'
    send(50)
    expect_confirms(50)
    wait_in_sync()
    master:kill9()
    assert(master_is(follower))
    standby:expect_log('lost Redis at ' .. master.address)
    send(50)
    expect_confirms(50)
    assert.is_nil(standby:stdout():find 'listening')
    broker:kill9()
    assert.is_true(standby:wait_ready())
    broker, standby = standby, broker
    c = broker:connect()
    expect_all()
    broker:expect_clean_stop()
    local text, status = shell.run(('%s check-store --store %s 2>&1'):format(shell.quote(Broker.binary()), group.url))
    assert.equal(0, status, text)
    assert.matches('^%d+ keys, %d+ entries: 0 findings', text)
  end)

  it('is waited for while it is a replica: no request is refused', function()
    start()
    local _, master = replica()
    send(50)
    expect_confirms(50)
    master:ok('REPLICAOF', '127.0.0.1', 1)
    send(50)
    broker:expect_log('it is no master any more: READONLY')
    broker:expect_log 'this Redis is a replica and does not accept writes; waiting'
    master:ok('REPLICAOF', 'NO', 'ONE')
    expect_confirms(50)
    assert.same({}, store().refused_requests)
    expect_all()
    -- Likewise at a start.
    broker:expect_clean_stop()
    master:ok('REPLICAOF', '127.0.0.1', 1)
    broker:launch()
    broker:expect_log('this Redis is a replica and does not accept writes; waiting.*this Redis is a replica')
    master:ok('REPLICAOF', 'NO', 'ONE')
    assert.is_true(broker:wait_ready())
  end)

  it('is used on when Sentinels are lost', function()
    start { replicas = 0 }
    local master = group:master()
    group.watchers[1]:kill9()
    assert(wait.poll(function() return store().sentinels == 2 end))
    local http = Http.connect(broker)
    assert.matches('2 of 3 Sentinels answer', http:get('/health/ready').body)
    group.watchers[2]:kill9()
    group.watchers[3]:kill9()
    assert(wait.poll(function() return store().sentinels == 0 end))
    send(100)
    expect_confirms(100)
    -- The link is lost: without a Sentinel there is nothing to connect to.
    master:ok('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
    broker:expect_log 'no Sentinel names a master for .tide.: start Sentinels that monitor it .127.0.0.1:%d+: conn'
    local health = http:get '/health/ready'
    assert.equal(503, health.status)
    assert.matches('no Sentinel names a master: see that', health.body)
    assert.is_nil(health.body:find('127.0.0.1', 1, true))
    send(100)
    group.watchers[3]:restart()
    expect_confirms(100)
    -- The first of the URL is still gone.
    broker:restart()
    c = broker:connect()
    expect_all()
  end)
end)

describe('a start with Sentinels', function()
  local guards, redis, broker, certs

  before_each(function() guards = {} end)
  after_each(function()
    if broker then broker:destroy() end
    for _, guard in ipairs(guards) do guard:close() end
    if redis then redis:destroy() end
    if certs then certs:destroy() end
    broker, redis, certs = nil, nil, nil
  end)

  --- One Sentinel that watches the Redis at `port`, with these lines in its file.
  local function watch(port, lines, own_port)
    local dir = shell.make_dir 'tidemq-sentinel'
    guards[#guards + 1] = Node.guard(dir)
    local node = Node.new(dir .. '/sentinel', { dir .. '/sentinel/sentinel.conf', '--sentinel' },
      own_port or Node.free_port())
    table.insert(lines, 1, ('%s %d\nbind 127.0.0.1\ndir %s\nsentinel monitor tide 127.0.0.1 %d 1'):format(
      own_port and 'tls-port' or 'port', node.port, node.dir, port))
    shell.write_file(node.dir .. '/sentinel.conf', table.concat(lines, '\n') .. '\n')
    node:launch()
    return node
  end

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
    assert.is_nil(why:find('secret', 1, true))
  end

  local function expect_up()
    local c = broker:connect()
    c:ok 'DECLARE queue jobs'
    c:ok('PUB - jobs', 'one')
    c:close()
    broker:expect_clean_stop()
  end

  it('that are not there, or do not know the name, fails and says so', function()
    local port = Node.free_port()
    redis = Redis.start { '--port', port }
    local sentinel = watch(port, {})
    sentinel:expect_up()
    local dead = Node.free_port()
    refused(('redis+sentinel://127.0.0.1:%d/tide'):format(dead),
      '^tidemq: .*no Sentinel names a master for .tide.: .*127.0.0.1:' .. dead .. ': connection refused')
    refused(('redis+sentinel://127.0.0.1:%d,%s/other'):format(dead, sentinel.address),
      "no Sentinel names a master for 'other': .*refused; " .. sentinel.address .. ': it knows no such Redis')
    assert(start(('redis+sentinel://127.0.0.1:%d,%s/tide/3'):format(dead, sentinel.address)))
    expect_up()
    redis.db = 3
    assert.is_not.equal('0', redis:cli 'DBSIZE')
  end)

  it('that are taken for the Redis says what to write', function()
    local port = Node.free_port()
    redis = Redis.start { '--port', port }
    local sentinel = watch(port, {})
    sentinel:expect_up()
    refused('redis://' .. sentinel.address, ('Redis at %s: this is a Sentinel, which stores nothing: use '
      .. 'redis%%+sentinel://HOST:PORT/NAME, with the name that it has for the master'):format(sentinel.address))
  end)

  it('that have passwords needs them, that of Redis and that of the Sentinels', function()
    local port = Node.free_port()
    redis = Redis.start { '--port', port }
    redis:cli('ACL', 'SETUSER', 'tide', 'on', '>secret', '~*', '&*', '+@all')
    local sentinel = watch(port, { 'requirepass s@cret' })
    local place = sentinel.address .. '/tide'
    assert(wait.poll(function() return sentinel:command 'AUTH' == nil and sentinel.sock end))
    refused('redis+sentinel://' .. place, 'it requires a password: %?sentinel%-password=')
    refused(('redis+sentinel://%s?sentinel-password=no'):format(place), 'WRONGPASS')
    refused(('redis+sentinel://tide:no@%s?sentinel-password=s%%40cret'):format(place), 'does not accept the password')
    assert(start(('redis+sentinel://tide:secret@%s?sentinel-user=default&sentinel-password=s%%40cret'):format(place)))
    local words = shell.read_file(('/proc/%d/cmdline'):format(broker:pid()))
    assert.is_nil(words:find('secret', 1, true))
    assert.is_nil(words:find('cret', 1, true))
    expect_up()
  end)

  it('goes with TLS to both', function()
    certs = Certs.make()
    redis = Redis.start(nil, certs)
    local port = tonumber(redis.tls_url:match ':(%d+)%?')
    local own = Node.free_port()
    watch(port, { 'tls-cert-file ' .. certs:cert 'server', 'tls-key-file ' .. certs:key 'server',
      'tls-ca-cert-file ' .. certs:cert 'ca', 'tls-replication yes', 'tls-auth-clients no', 'port 0' }, own)
    local url = ('rediss+sentinel://localhost:%d/tide?ca=%s'):format(own, certs:cert 'ca')
    assert(wait.poll(function() return shell.run(('redis-cli --tls --cacert %s -p %d PING'):format(
      certs:cert 'ca', own)):find 'PONG' end))
    assert(start(url))
    expect_up()
    refused(('redis+sentinel://localhost:%d/tide'):format(own), 'no Sentinel names a master')
  end)
end)
