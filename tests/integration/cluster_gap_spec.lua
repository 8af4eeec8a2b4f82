--- A replica is promoted that lacks more than the broker has kept: what it has is read anew.
local Broker = require 'support.broker'
local Cluster = require 'support.cluster'
local wait = require 'support.wait'

local BODY = ('x'):rep(100000)
-- More than REDIS_REPLAY_BYTES_MAX.
local MANY = 720

describe('a promoted replica that lacks too much', function()
  local cluster

  setup(function() cluster = Cluster.start { masters = 3, replicas = 3 } end)
  teardown(function() cluster:close() end)

  --- The answers to so many publishes, by their first word.
  local function answers(client, count)
    local n = { OK = 0, ERR = 0 }
    while n.OK + n.ERR < count do
      local word = client:read_line(60):match '^%u+'
      if n[word] then n[word] = n[word] + 1 end
    end
    return n
  end

  it('is read anew, with a line that says how much is missing, and consumers go on', function()
    local broker = Broker.start { args = { '--store', cluster.url } }
    local client, consumer = broker:connect(), broker:connect()
    local master = cluster:master_of 'tide:{//jobs#0}:msg'
    local replica = cluster:replica_of(master)
    client:ok 'DECLARE queue jobs'
    for i = 1, 3 do client:publish('jobs', 'first ' .. i) end
    consumer:ok 'SUB jobs s'
    for i = 1, 3 do assert.equal('first ' .. i, consumer:expect_msg().payload) end
    -- The replica has them, and nothing from here on.
    master:command('WAIT', '1', '10000')
    replica:stop()
    for _ = 1, MANY do client:send(('PUB - jobs %d\n%s\n'):format(#BODY, BODY)) end
    assert.equal(MANY, answers(client, MANY).OK)
    master:kill9()
    -- The first is on its way, the others wait behind it: none of them is in the replica.
    local late, other = broker:connect(), broker:connect()
    for i = 1, 5 do
      late:send(('PUB - jobs 6\nlate %d\n'):format(i))
      other:ok 'PING'
    end
    replica:cont()
    cluster:failover(replica, 'TAKEOVER')
    broker:expect_log('lacks the last %d+ writes of the master before it, and not all of them are known any more')
    broker:expect_log 'queue \'jobs\' of vhost \'/\' can be used again'
    assert.equal(5, answers(late, 5).ERR)
    -- What was held comes again, behind what the consumer was given and lost.
    local seen = {}
    assert.is_truthy(wait.poll(function()
      local message = consumer:expect_msg()
      seen[#seen + 1] = #message.payload < 100 and message.payload or nil
      return #seen == 3
    end))
    assert.same({ 'first 1', 'first 2', 'first 3' }, seen)
    client:publish('jobs', 'last')
    broker:restart()
    -- Some of the many may have reached the replica's socket before its master ended.
    local kept = {}
    for _, message in ipairs(broker:connect():get 'jobs max=100') do
      if #message.payload < 100 then kept[#kept + 1] = message.payload end
    end
    assert.same({ 'first 1', 'first 2', 'first 3', 'last' }, kept)
  end)
end)

describe('a promoted replica that never heard of this start of the broker', function()
  local cluster, broker, client, master, replica

  before_each(function()
    cluster = Cluster.start { masters = 3, replicas = 3 }
    broker = Broker.start { args = { '--store', cluster.url } }
    client = broker:connect()
    client:ok 'DECLARE queue jobs'
    client:publish('jobs', 'before')
    master = cluster:master_of 'tide:{//jobs#0}:msg'
    replica = cluster:replica_of(master)
  end)
  after_each(function()
    broker:destroy()
    cluster:close()
  end)

  --- Nothing that the master is written from here on reaches the replica.
  local function cut_off()
    master:command('WAIT', '1', '10000')
    replica:stop()
    master:ok('EVAL', "for _ = 1, 25 do redis.call('SET', KEYS[1], ('x'):rep(1e6)) end return redis.status_reply 'OK'",
      1, 'filler{//jobs#0}')
  end

  local function promote()
    master:kill9()
    replica:cont()
    cluster:failover(replica, 'TAKEOVER')
  end

  it('is taken again, and is given what this start has written', function()
    broker:expect_clean_stop()
    cut_off()
    broker:launch()
    assert.is_true(broker:wait_ready())
    client = broker:connect()
    for i = 1, 3 do client:publish('jobs', 'after ' .. i) end
    promote()
    broker:expect_log('warn  store: Redis at ' .. replica.address
      .. ' lacks the last %d+ writes of the master before it')
    client:publish('jobs', 'last')
    broker:restart()
    local texts = {}
    for i, message in ipairs(broker:connect():get 'jobs max=10') do texts[i] = message.payload end
    assert.same({ 'before', 'after 1', 'after 2', 'after 3', 'last' }, texts)
  end)

  it('and not all of the start before is read anew', function()
    cut_off()
    client:publish('jobs', 'lost')
    broker:restart()
    client = broker:connect()
    client:publish('jobs', 'after')
    promote()
    broker:expect_log('error store: Redis at ' .. replica.address
      .. ' lacks the last %d+ writes of the master before it')
    broker:expect_log "queue 'jobs' of vhost '/' can be used again"
    client:publish('jobs', 'last')
    broker:restart()
    local texts = {}
    for i, message in ipairs(broker:connect():get 'jobs max=10') do texts[i] = message.payload end
    assert.same({ 'before', 'last' }, texts)
  end)
end)

describe('a promoted replica that lacks definitions', function()
  local cluster, broker

  before_each(function()
    cluster = Cluster.start { masters = 3, replicas = 3 }
    broker = Broker.start { args = { '--store', cluster.url } }
  end)
  after_each(function()
    broker:destroy()
    cluster:close()
  end)

  it('is given all of them again', function()
    local client = broker:connect()
    local master = cluster:master_of '{tide}:vhosts'
    local replica = cluster:replica_of(master)
    client:ok 'DECLARE queue before'
    master:command('WAIT', '1', '10000')
    replica:stop()
    master:ok('EVAL', "for _ = 1, 25 do redis.call('SET', KEYS[1], ('x'):rep(1e6)) end return redis.status_reply 'OK'",
      1, 'filler{tide}')
    for _, what in ipairs {
      'DECLARE queue jobs ack-timeout=7s', 'DECLARE topic events partitions=2', 'DECLARE exchange x topic',
      'BIND jobs x a.*', 'DECLARE vhost other', 'USER add ann pass=secret tags=admin',
    } do client:ok(what) end
    -- What this start has not written is not known to be missing.
    broker:restart()
    client = broker:connect()
    client:document 'HELLO user=ann pass=secret'
    client:ok 'DECLARE queue last'
    master:kill9()
    replica:cont()
    cluster:failover(replica, 'TAKEOVER')
    broker:expect_log '6 definitions are written to Redis again'
    client:ok 'DECLARE queue behind'
    broker:restart()
    client = broker:connect()
    client:document 'HELLO user=ann pass=secret'
    for _, queue in ipairs { 'before', 'jobs', 'last', 'behind' } do assert.equal(0, client:stats(queue).ready) end
    assert.equal('7s', client:document('LIST queues match=jobs')[1].options['ack-timeout'])
    client:document 'PEEK events partition=1'
    client:ok('PUB x a.b', 'hello')
    assert.equal(1, client:stats('jobs').ready)
    client:ok 'DELETE vhost other'
  end)
end)

describe('a promoted replica that refuses what it lacks', function()
  local cluster, broker, client, master, replica

  before_each(function()
    cluster = Cluster.start { masters = 3, replicas = 3 }
    broker = Broker.start { args = { '--store', cluster.url } }
    client = broker:connect()
    client:ok 'DECLARE queue jobs'
    master = cluster:master_of 'tide:{//jobs#0}:msg'
    replica = cluster:replica_of(master)
  end)
  after_each(function()
    broker:destroy()
    cluster:close()
  end)

  --- More than a socket takes, and less than REDIS_REPLAY_BYTES_MAX.
  local function publish_beyond_the_replica()
    master:command('WAIT', '1', '10000')
    replica:stop()
    for _ = 1, 250 do client:send(('PUB - jobs %d\n%s\n'):format(#BODY, BODY)) end
    for _ = 1, 250 do client:expect('^OK %x+ 1$', 60) end
  end

  local function promote()
    master:kill9()
    replica:cont()
    cluster:failover(replica, 'TAKEOVER')
  end

  it('for lack of memory is given it again until it takes it, and nothing is lost', function()
    replica:ok('CONFIG', 'SET', 'maxmemory', '1')
    publish_beyond_the_replica()
    promote()
    broker:expect_log('error store: Redis at ' .. replica.address .. ': Redis is out of memory and refuses writes')
    broker:expect_log 'refuses a write that the master before it has confirmed: it is tried again'
    replica:ok('CONFIG', 'SET', 'maxmemory', '0')
    client:publish('jobs', 'last')
    broker:restart()
    assert.equal(251, broker:connect():stats('jobs').ready)
  end)

  it('for a reason that does not pass is read anew, and the log says so', function()
    local late, key
    for i = 1, 200 do
      late, key = 'late' .. i, ('tide:{//late%d#0}:msg'):format(i)
      if cluster:master_of(key) == master then break end
    end
    client:ok('DECLARE queue ' .. late)
    -- A string that the replica alone keeps.
    master:ok('SET', key, 'x')
    master:ok('EVAL', "redis.set_repl(redis.REPL_NONE) redis.call('DEL', KEYS[1])", 1, key)
    publish_beyond_the_replica()
    client:publish(late, 'x')
    promote()
    broker:expect_log('error store: lost Redis at ' .. replica.address .. ': it refuses a write that the master '
      .. 'before it has confirmed, which is lost: what it has is read anew')
    broker:expect_log "queue 'jobs' of vhost '/' can be used again"
    client:publish('jobs', 'last')
  end)
end)
