-- min-replicas-to-write: a Redis that has too few replicas refuses each write until they are there again.
local Broker = require 'support.broker'
local Cluster = require 'support.cluster'
local Http = require 'support.http'
local wait = require 'support.wait'

describe('a Redis that lacks replicas', function()
  local broker, other, servers, http, c

  local function start(args, redis)
    broker = Broker.start { args = args, redis = redis, http = '127.0.0.1:0' }
    http, c = Http.connect(broker), broker:connect()
    c:ok 'DECLARE queue jobs'
    c:ok 'DECLARE topic events partitions=1'
  end

  after_each(function()
    for _, one in pairs { other or false, broker, servers } do
      if one then (one.destroy or one.close)(one) end
    end
    broker, other, servers = nil, nil, nil
  end)

  local function expect_reason(pattern)
    local health
    assert(wait.poll(function()
      health = http:get '/health/ready'
      return health.status == 503 and health.json.reasons[1].text:find(pattern)
    end), health.body)
    assert.equal('store', health.json.reasons[1].code)
  end

  local function expect_ready()
    assert(wait.poll(function() return http:get('/health/ready').status == 200 end), http:get('/health/ready').body)
  end

  local function count_log(pattern) return select(2, broker:log():gsub(pattern, '')) end

  --- Redis has refused a write several times.
  local function expect_refusals()
    assert(wait.poll(function()
      local count = http:get('/metrics').body:match 'refused_requests_total{reason="replicas"} (%d+)'
      return tonumber(count) > 5
    end), http:get('/metrics').body)
  end

  it('is waited for: nobody is refused, the order stays, and health says why', function()
    start(nil, {})
    c:ok('PUB - jobs', 'held')
    c:ok 'GET jobs'
    local held = c:expect_msg()
    broker.redis:cli('CONFIG', 'SET', 'min-replicas-to-write', '1')
    local sentence = 'Redis refuses writes: fewer replicas than its min%-replicas%-to%-write are connected'
    expect_reason(sentence)
    for i = 1, 20 do c:send(('PUB - jobs 2\r\n%02d\r\n'):format(i)) end
    c:send 'PUB - events 1\r\ne\r\n'
    c:send(('ACK %s\r\n'):format(held.tag))
    c:send 'DECLARE queue late\r\n'
    expect_refusals()
    broker.redis:cli('CONFIG', 'SET', 'min-replicas-to-write', '0')
    for _ = 1, 21 do c:expect('^OK %x+ ', 30) end
    c:expect '^OK 1$'
    c:expect '^OK'
    expect_ready()
    assert.equal(1, count_log('error store: Redis at %S+: ' .. sentence))
    assert.is_nil(broker:log():find('lost Redis', 1, true))
    broker:restart_after 'kill9'
    c = broker:connect()
    local texts = {}
    for i, msg in ipairs(c:get 'jobs max=50') do texts[i] = tonumber(msg.payload) end
    assert.equal(20, #texts)
    for i = 1, 20 do assert.equal(i, texts[i]) end
    assert.equal('e', c:get('events partition=0 offset=0 max=9')[1].payload)
    c:ok 'GET late'
  end)

  it('is waited for by a start, which says why once', function()
    start(nil, {})
    broker:expect_clean_stop()
    broker.redis:cli('CONFIG', 'SET', 'min-replicas-to-write', '2')
    broker:launch()
    local line = 'warn  store: Redis at %S+: Redis refuses writes: min%-replicas%-to%-write 2, and only 0 replicas are '
      .. 'connected: start them, or lower it; what is to be written waits; waiting'
    broker:expect_log(line)
    broker.redis:cli('CONFIG', 'SET', 'min-replicas-to-write', '0')
    assert.is_true(broker:wait_ready())
    assert.equal(1, count_log(line))
    broker:connect():ok('PUB - jobs', 'x')
  end)

  it('is waited for when Sentinels have promoted it', function()
    servers = Cluster.sentinels { args = { '--min-replicas-to-write', '1' } }
    start { '--store', servers.url }
    local master = servers:master()
    master:kill9()
    c:send 'PUB - jobs 1\r\n1\r\n'
    servers:wait_failover(master.address)
    expect_reason 'min%-replicas%-to%-write 1, and only 0 replicas are connected'
    c:send 'PUB - jobs 1\r\n2\r\n'
    master:restart()
    for _ = 1, 2 do c:expect('^OK %x+ 1$', 60) end
    expect_ready()
    assert.equal('1', c:get('jobs')[1].payload)
  end)

  it('is waited for in a Redis Cluster, and others go on', function()
    servers = Cluster.start { masters = 3, replicas = 3, args = { '--min-replicas-to-write', '1' } }
    start { '--store', servers.url }
    local function key_of(queue) return ('tide:{//%s#0}:msg'):format(queue) end
    local master = servers:master_of(key_of 'jobs')
    local away, elsewhere = c, broker:connect()
    local free
    for i = 1, 50 do
      free = 'free' .. i
      if servers:master_of(key_of(free)) ~= master then break end
    end
    elsewhere:ok('DECLARE queue ' .. free)
    local replica = servers:replica_of(master)
    master:kill9()
    servers:failover(replica, 'TAKEOVER')
    away:send 'PUB - jobs 1\r\n1\r\n'
    expect_reason 'min%-replicas%-to%-write 1, and only 0 replicas are connected'
    away:send 'PUB - jobs 1\r\n2\r\n'
    for _ = 1, 20 do elsewhere:ok('PUB - ' .. free, 'x') end
    assert.equal('refusing', elsewhere:document('STATS').store.state)
    master:restart()
    for _ = 1, 2 do away:expect('^OK %x+ 1$', 60) end
    expect_ready()
    assert.equal('1', away:get('jobs')[1].payload)
    assert.equal(20, elsewhere:stats(free).ready)
  end)
end)
