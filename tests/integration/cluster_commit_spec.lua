-- A COMMIT over several masters of a Redis Cluster: all of it has happened, or nothing, whatever ends meanwhile.
local Broker = require 'support.broker'
local Cluster = require 'support.cluster'
local wait = require 'support.wait'

describe('a COMMIT over several slots', function()
  local cluster, broker, c
  local meta, other -- the master of {tide}, and one that is not it
  local near, far = {}, {} -- names of queues there; topics are named likewise

  local function key(name) return ('tide:{//%s#0}:msg'):format(name) end

  setup(function()
    cluster = Cluster.start { masters = 3, replicas = 0 }
    meta = cluster:master_of '{tide}:ids'
    for i = 1, 200 do
      local name = 'q' .. i
      local master = cluster:master_of(key(name))
      other = other or (master ~= meta and master or nil)
      local list = master == meta and near or master == other and far or nil
      if list then list[#list + 1] = name end
    end
    broker = Broker.start { args = { '--store', cluster.url, '--window-messages', '16', '--drain-timeout', '500ms' } }
  end)
  teardown(function()
    broker:destroy()
    cluster:close()
  end)

  local source, target, log, spare -- the first at {tide}'s master, the others at the other one

  before_each(function()
    source, target, log, spare = table.remove(near), table.remove(far), table.remove(far), table.remove(far)
    c = broker:connect()
    c:ok(('DECLARE queue %s ack-timeout=1h'):format(source))
    c:ok('DECLARE queue ' .. target)
    c:ok('DECLARE queue ' .. spare)
    c:ok('DECLARE topic ' .. log)
    for i = 1, 4 do c:ok('PUB - ' .. source, 'in' .. i) end
    assert.equal(2, #c:get(source .. ' max=2'))
  end)
  after_each(function()
    for _, node in ipairs(cluster.nodes) do
      if node.is_stopped then node:cont() end
      node:command('CONFIG', 'SET', 'maxmemory', '0')
    end
    c:close()
  end)

  --- Take one, give one back, and publish to each.
  local function ask()
    c:send(('BEGIN quiet\r\nPUB - %s quiet 3\r\nnew\r\nPUB - %s quiet id=a 1\r\na\r\nPUB - %s quiet 1\r\nb\r\n')
      :format(source, target, target) .. ('PUB - %s quiet 1\r\nx\r\nACK 1 quiet\r\nCOMMIT\r\n'):format(log))
  end

  local function records() return (cluster:command('HLEN', '{tide}:commits')) end
  local function wait_record(is_there)
    assert(wait.poll(function() return (records() > 0) == is_there end))
  end

  local function counts()
    local s = c:stats(source)
    return ('%d, %d, %d'):format(s.ready + s.unacked, c:stats(target).ready, c:stats(log).messages)
  end
  local NOTHING, ALL = '4, 0, 0', '4, 2, 1'

  local function start_again()
    broker:run()
    c = broker:connect()
  end

  --- What memory says is what a start reads.
  local function expect_all()
    assert.equal(ALL, counts())
    assert.equal(0, records())
    broker:kill9()
    start_again()
    assert.equal(ALL, counts())
    local payloads = c.payload_text(c:get(source .. ' max=10 ack=auto'))
    assert.equal('in2 in3 in4 new', payloads)
    assert.equal('a b', c.payload_text(c:get(target .. ' max=10 ack=auto')))
  end

  it('happens in all of them', function()
    ask()
    c:expect_line 'OK 4 1'
    expect_all()
  end)

  it('has happened, though a master answers later than the broker lives', function()
    other:stop()
    ask()
    wait_record(true)
    broker:kill9()
    other:cont()
    start_again()
    broker:expect_log 'finishing a COMMIT, in slot %d+'
    expect_all()
  end)

  it('happens once, though its record outlives it', function()
    other:stop()
    ask()
    wait_record(true)
    meta:stop()
    other:cont()
    assert(wait.poll(function() return other:command('EXISTS', key(target)) == 1 end))
    broker:kill9()
    meta:cont()
    start_again()
    expect_all()
  end)

  it('happens in whole or not at all when the record was on its way', function()
    meta:stop()
    ask()
    broker:kill9()
    meta:cont()
    start_again()
    assert.equal(0, records())
    local now = counts()
    assert.is_true(now == ALL or now == NOTHING, now)
    broker:kill9()
    start_again()
    assert.equal(now, counts())
  end)

  it('waits for a master without memory, and others do not', function()
    other:ok('CONFIG', 'SET', 'maxmemory', '1')
    ask()
    broker:expect_log 'a COMMIT over several slots has happened, and Redis refuses a part of it: .*OOM'
    wait_record(true)
    local beside, free = broker:connect(), table.remove(near)
    beside:ok('DECLARE queue ' .. free)
    beside:ok('PUB - ' .. free, 'x')
    beside:send(('PUB - %s 1\r\nx\r\n'):format(spare))
    beside:expect '^ERR store OOM'
    assert.equal(0, beside:stats(target).ready)
    other:ok('CONFIG', 'SET', 'maxmemory', '0')
    c:expect_line 'OK 4 1'
    beside:close()
    expect_all()
  end)

  it('waits for memory at a start', function()
    other:stop()
    ask()
    wait_record(true)
    broker:kill9()
    other:cont()
    other:ok('CONFIG', 'SET', 'maxmemory', '1')
    broker:launch()
    broker:expect_log 'Redis refuses a part of it: .*OOM'
    other:ok('CONFIG', 'SET', 'maxmemory', '0')
    broker:wait_ready()
    c = broker:connect()
    expect_all()
  end)

  it('is left to the next start when the broker is told to stop meanwhile', function()
    other:ok('CONFIG', 'SET', 'maxmemory', '1')
    ask()
    wait_record(true)
    local beside = broker:connect()
    beside:send(('PURGE %s\r\n'):format(target))
    beside:close()
    broker:expect_clean_stop()
    assert.is_true(records() > 0)
    other:ok('CONFIG', 'SET', 'maxmemory', '0')
    start_again()
    expect_all()
  end)

  it('is refused in whole when the master of {tide} has no memory', function()
    meta:ok('CONFIG', 'SET', 'maxmemory', '1')
    ask()
    c:expect '^ERR store .*OOM'
    assert.equal(NOTHING, counts())
    assert.equal(0, records())
    meta:ok('CONFIG', 'SET', 'maxmemory', '0')
    ask()
    c:expect_line 'OK 4 1'
    expect_all()
  end)

  it('comes before what is asked of its queues meanwhile', function()
    -- Beyond the window a PURGE removes what Redis has.
    for i = 1, 60 do c:ok('PUB - ' .. target, 'old' .. i) end
    other:ok('CONFIG', 'SET', 'maxmemory', '1')
    ask()
    wait_record(true)
    local beside = broker:connect()
    beside:send(('PURGE %s\r\nDELETE topic %s\r\n'):format(target, log))
    assert(wait.poll(function() return cluster:command('HEXISTS', '{tide}:/:topic-options', log) == 0 end))
    assert.equal(1, cluster:command('HEXISTS', '{tide}:erasing', 'topic //' .. log))
    other:ok('CONFIG', 'SET', 'maxmemory', '0')
    c:expect_line 'OK 4 1'
    beside:expect '^OK'
    beside:expect '^OK'
    beside:close()
    assert.equal(0, c:stats(target).ready)
    assert.same({}, cluster:keys('tide:{//' .. target .. '#*:[mru]*'))
    assert.same({}, cluster:keys('tide:{//' .. log .. '#*'))
  end)

  it('of a group waits, like messages, for the definition of its topic', function()
    local name = table.remove(far)
    local groups = ('tide:{//%s#0}:groups'):format(name)
    meta:stop()
    local beside = broker:connect()
    beside:send(('DECLARE topic %s partitions=1\r\nSUB %s s group=g\r\nSEEK %s g first\r\n'):format(name, name, name))
    -- Its master answers what is asked later.
    beside:send(('PUB - %s 1\r\nx\r\n'):format(spare))
    assert(wait.poll(function() return c:stats(spare).ready == 1 end))
    c:ok('PUB - ' .. spare, 'y')
    assert.equal(0, other:command('EXISTS', groups))
    meta:cont()
    for _ = 1, 2 do beside:expect_line 'OK' end
    beside:expect_line 'EVT assigned s 0'
    beside:expect_line 'OK'
    beside:expect '^OK %x+ 1$'
    assert.equal('0', other:command('HGET', groups, 'g'))
    beside:close()
  end)

  it('is left out of the record when it is of one slot', function()
    other:ok('CONFIG', 'SET', 'maxmemory', '1')
    c:send(('BEGIN quiet\r\nPUB - %s quiet 1\r\na\r\nCOMMIT\r\n'):format(target))
    c:expect '^ERR store .*OOM'
    assert.equal(0, records())
  end)
end)

describe('the steps of a COMMIT over several slots', function()
  local cluster, broker, c, meta, other, names

  setup(function()
    cluster = Cluster.start { masters = 3, replicas = 3 }
    meta, other, names = cluster:master_of '{tide}:ids', nil, {}
    for i = 1, 40 do
      local master = cluster:master_of(('tide:{//q%d#0}:msg'):format(i))
      other = other or (master ~= meta and master or nil)
      if master == other then names[#names + 1] = 'q' .. i end
    end
    broker = Broker.start { args = { '--store', cluster.url, '--confirm', 'replicas=1' } }
    c = broker:connect()
    c:ok 'DECLARE queue jobs'
    for i = 1, 2 do c:ok('DECLARE queue ' .. names[i]) end
  end)
  teardown(function()
    broker:destroy()
    cluster:close()
  end)

  local function ask(name)
    c:send(('BEGIN quiet\r\nPUB - jobs quiet 1\r\na\r\nPUB - %s quiet 1\r\nb\r\nCOMMIT\r\n'):format(name))
  end
  local function stored(name) return (cluster:command('EXISTS', ('tide:{//%s#0}:msg'):format(name))) end
  local function records() return meta:command('HLEN', '{tide}:commits') end

  it('wait for the replicas, each for those of its master', function()
    local replica = cluster:replica_of(meta)
    replica:stop()
    ask(names[1])
    assert(wait.poll(function() return records() > 0 end))
    broker:expect_log 'too few replicas of Redis confirm what it has'
    assert.equal(0, stored(names[1]))
    replica:cont()
    c:expect_line 'OK 2 0'
    assert.equal(1, stored(names[1]))
    assert.equal(0, records())
  end)

  it('go on at a promoted replica', function()
    local replica = cluster:replica_of(other)
    other:stop()
    ask(names[2])
    assert(wait.poll(function() return records() > 0 end))
    other:kill9()
    assert(cluster:failover(replica, 'TAKEOVER'))
    other:restart()
    c:expect('^OK 2 0', 30)
    assert.equal(0, records())
    broker:kill9()
    broker:run()
    c = broker:connect()
    assert.equal(1, c:stats(names[2]).ready)
    assert.equal(2, c:stats('jobs').ready)
  end)
end)
