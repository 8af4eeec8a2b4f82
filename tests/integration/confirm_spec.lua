-- serve --confirm: an OK waits until replicas of Redis have what it tells of.
local Broker = require 'support.broker'
local Cluster = require 'support.cluster'
local Http = require 'support.http'
local Node = require 'support.redis_node'
local needs = require 'support.needs'
local shell = require 'support.shell'
local wait = require 'support.wait'

local MSG = 'tide:{//%s#0}:msg'

describe('a durable change', function()
  local dir, guard, group, master, replicas, brokers, fsync

  before_each(function()
    fsync = 'no'
    dir = shell.make_dir 'tidemq-confirm'
    guard = Node.guard(dir)
    replicas, brokers = {}, {}
  end)

  after_each(function()
    for _, broker in ipairs(brokers) do broker:destroy() end
    guard:close()
    if group then group:close() end
    group = nil
  end)

  local function start_node(name, ...)
    local port = Node.free_port()
    local node = Node.new(('%s/%s'):format(dir, name), { '--bind', '127.0.0.1', '--port', port, '--save', '',
      '--appendonly', 'yes', '--appendfsync', fsync, '--repl-diskless-sync-delay', 0, ... }, port)
    node:restart()
    return node
  end

  local function expect_in_step(replica)
    assert(wait.poll(function() return replica:info('replication', 'master_link_status') == 'up' end))
  end

  local function add_replica()
    local replica = start_node('replica-' .. #replicas + 1, '--replicaof', '127.0.0.1 ' .. master.port)
    replicas[#replicas + 1] = replica
    expect_in_step(replica)
    return replica
  end

  local function start_redis(count)
    master = start_node 'master'
    for _ = 1, count do add_replica() end
  end

  local function start(level, ...)
    local broker = Broker.start {
      args = { '--store', 'redis://127.0.0.1:' .. master.port, '--confirm', level, ... }, http = '127.0.0.1:0',
    }
    brokers[#brokers + 1] = broker
    return broker, broker:connect()
  end

  local function reason(broker)
    local health = Http.connect(broker):get '/health/ready'
    return health.json.reasons[1] and health.json.reasons[1].code, health
  end

  local function expect_reason(broker, code)
    assert(wait.poll(function() return reason(broker) == code end), code or 'ready')
  end

  --- The requests of these connections have no answer.
  local function expect_unanswered(...)
    for _, c in ipairs { ... } do
      local line = c:read_line(0)
      assert.is_nil(line)
    end
  end

  --- The first replica becomes a master at the address of the one that has died; others follow it.
  local function promote(replica)
    replica:ok('REPLICAOF', 'NO', 'ONE')
    -- A child of the dead one, that was saving, may have it for a moment.
    assert(wait.poll(function() return replica:command('CONFIG', 'SET', 'port', master.port) == 'OK' end))
    replica.port = master.port
    replica:forget()
    for _, other in ipairs(replicas) do
      if other ~= replica then other:ok('REPLICAOF', '127.0.0.1', master.port) end
    end
    master = replica
  end

  local function ahead()
    local best, furthest
    for _, replica in ipairs(replicas) do
      local offset = tonumber(replica:info('replication', 'slave_repl_offset'))
      if not furthest or offset > furthest then best, furthest = replica, offset end
    end
    return best
  end

  it('is not answered before a replica has it, and then in order', function()
    start_redis(1)
    local broker, c = start('replicas=1', '--window-messages', '16')
    local reader = broker:connect()
    assert.equal('replicas=1', c:document('HELLO').confirm)
    assert.equal('replicas=1', c:document('STATS').store.confirm)
    broker:expect_log 'store: Redis %S+ at %S+, .*; %-%-confirm replicas=1'
    c:ok 'DECLARE queue jobs'
    for i = 1, 40 do c:ok('PUB - jobs', tostring(i)) end
    assert.equal(40, replicas[1]:ok('HLEN', MSG:format 'jobs'))
    replicas[1]:stop()
    c:send 'PUB - jobs 2\r\n41\r\nDECLARE queue more\r\n'
    expect_reason(broker, 'replicas')
    -- Redis has it, and is asked for it behind the write: nobody is told.
    assert.equal(41, master:ok('HLEN', MSG:format 'jobs'))
    reader:send 'PEEK jobs 100\r\n'
    assert.equal('unconfirmed', broker:connect():document('STATS').store.state)
    expect_unanswered(c, reader)
    replicas[1]:cont()
    c:expect '^OK %x+ 1$'
    c:expect '^OK'
    assert.equal(41, #reader:expect_json().messages)
    assert.equal(41, replicas[1]:ok('HLEN', MSG:format 'jobs'))
    expect_reason(broker, nil)
    broker:expect_log 'is over: unconfirmed'
    broker:expect_clean_stop()
  end)

  it('holds publishers back while no replica has what they publish', function()
    start_redis(1)
    local broker, c = start('replicas=1', '--max-unstored', '1M')
    c:ok 'DECLARE queue jobs'
    c:ok 'DECLARE topic events partitions=1'
    replicas[1]:stop()
    c:send(('PUB - jobs 1000\r\n%s\r\nPUB - events 1000\r\n%s\r\n'):format(('x'):rep(1000), ('y'):rep(1000)):rep(1000))
    c:expect '^EVT blocked'
    expect_reason(broker, 'replicas')
    expect_unanswered(c)
    replicas[1]:cont()
    local confirmed = 0
    while confirmed < 2000 do
      local line = assert(c:read_line(30))
      if line:find '^OK ' then confirmed = confirmed + 1 else assert.matches('^EVT ', line) end
    end
  end)

  it('waits for a replica that comes after the start', function()
    start_redis(0)
    local broker, c = start 'replicas=1'
    expect_reason(broker, 'replicas')
    broker:expect_log 'too few replicas of Redis confirm what it has'
    c:send 'DECLARE queue jobs\r\nPUB - jobs 1\r\nx\r\n'
    local replica = add_replica()
    c:expect '^OK'
    c:expect '^OK %x+ 1$'
    assert.equal(1, replica:ok('HLEN', MSG:format 'jobs'))
  end)

  --- Publishes, acks, transactions and declarations until the master is killed; what was answered.
  local function work_until_killed(c, at)
    local ledger = { published = {}, acked = {}, declared = {} }
    local lines, meaning = {}, {}
    c:ok 'DECLARE queue jobs'
    c:ok 'DECLARE queue done'
    c:ok 'DECLARE topic events partitions=1'
    for i = 1, 300 do c:ok('PUB - done', 'd' .. i) end
    c:ok 'GET done max=300'
    for _ = 1, 300 do c:expect_msg() end
    local function add(line, note)
      lines[#lines + 1] = line
      meaning[#meaning + 1] = note or false
    end
    for i = 1, 300 do
      local name = 'p' .. i
      add(('PUB - jobs %d\r\n%s\r\n'):format(#name, name), { 'published', 'jobs', name })
      add(('PUB - events %d\r\n%s\r\n'):format(#name, name), { 'published', 'events', name })
      if i % 3 == 0 then
        add(('ACK %d\r\n'):format(i), { 'acked', 'd' .. i })
      elseif i % 3 == 1 then
        add 'BEGIN\r\n'
        add(('PUB - jobs %d\r\nt%s\r\n'):format(#name + 1, name))
        add(('ACK %d\r\n'):format(i))
        add('COMMIT\r\n', { 'committed', 't' .. name, 'd' .. i })
      elseif i % 30 == 2 then
        add(('DECLARE queue q%d\r\n'):format(i), { 'declared', 'q' .. i })
      end
    end
    for from = 1, #lines, 20 do
      if from > at then break end
      c:send(table.concat(lines, '', from, math.min(from + 19, #lines)))
      if from + 20 > at then master:kill9() end
      ledger.sent = math.min(from + 19, #lines)
      for i = from, ledger.sent do
        -- The rest is answered by the Redis that comes.
        if from + 20 > at then return ledger, meaning, i end
        assert.matches('^OK', c:read_line())
        ledger[#ledger + 1] = meaning[i]
      end
    end
    return ledger, meaning, ledger.sent + 1
  end

  --- What Redis at the address of the master has.
  local function expect_all(c, ledger)
    local jobs, done, events, queues = {}, {}, {}, {}
    for _, message in ipairs(c:get 'jobs max=1000') do jobs[message.payload] = true end
    for _, message in ipairs(c:get 'done max=1000') do done[message.payload] = true end
    local from, page = 0
    repeat
      page = c:peek('events 100 partition=0 offset=' .. from)
      for _, message in ipairs(page) do events[message.payload] = true end
      from = from + #page
    until #page == 0
    for _, queue in ipairs(c:document 'LIST queues') do queues[queue.name] = true end
    local counts = {}
    for _, note in ipairs(ledger) do
      if note then
        local kind, a, b = table.unpack(note)
        counts[kind] = (counts[kind] or 0) + 1
        if kind == 'published' then assert.is_true((a == 'jobs' and jobs or events)[b], b) end
        if kind == 'acked' then assert.is_nil(done[a], a) end
        if kind == 'declared' then assert.is_true(queues[a], a) end
        if kind == 'committed' then
          assert.is_true(jobs[a], a)
          assert.is_nil(done[b], b)
        end
      end
    end
    for _, kind in ipairs { 'published', 'acked', 'committed', 'declared' } do
      assert.is_true((counts[kind] or 0) > 0, kind)
    end
  end

  --- The start of another broker reads what Redis has.
  local function expect_in_redis(ledger)
    brokers[#brokers]:kill9()
    local _, c = start 'replicas=1'
    expect_all(c, ledger)
  end

  it('that was answered is there when the master is killed and a replica promoted', function()
    start_redis(2)
    local _, c = start 'replicas=1'
    local ledger, meaning, next = work_until_killed(c, 500)
    promote(ahead())
    -- What was on its way is answered once, in its order.
    for i = next, ledger.sent do
      assert.matches('^OK', c:read_line(30))
      ledger[#ledger + 1] = meaning[i]
    end
    c:ok('PUB - jobs', 'later')
    expect_in_redis(ledger)
  end)

  it('that was not answered is sent again to a promoted replica that lacks it', function()
    start_redis(2)
    local broker, c = start 'replicas=1'
    c:ok 'DECLARE queue jobs'
    c:ok 'DECLARE topic events partitions=1'
    c:ok('PUB - jobs', 'a')
    for _, replica in ipairs(replicas) do
      assert(wait.poll(function() return replica:ok('HLEN', MSG:format 'jobs') == 1 end))
      replica:ok('REPLICAOF', 'NO', 'ONE')
    end
    c:send 'PUB - jobs 1\r\nb\r\nPUB - events 1\r\nc\r\nDECLARE queue late\r\n'
    expect_reason(broker, 'replicas')
    assert.equal(2, master:ok('HLEN', MSG:format 'jobs'))
    expect_unanswered(c)
    master:kill9()
    assert.equal(1, replicas[1]:ok('HLEN', MSG:format 'jobs'))
    promote(replicas[1])
    c:expect('^OK %x+ 1$', 30)
    c:expect '^OK %x+ 1'
    c:expect '^OK'
    expect_in_step(replicas[2])
    assert.equal(2, replicas[2]:ok('HLEN', MSG:format 'jobs'))
    broker:expect_log 'is back after'
    assert.is_nil(broker:log():find 'has lost')
    c:ok('PUB - jobs', 'd')
  end)

  it('that was answered is there when master and broker are killed together', function()
    start_redis(2)
    local broker, c = start 'replicas=1'
    local ledger = work_until_killed(c, 500)
    broker:kill9()
    promote(ahead())
    local _, other = start 'replicas=1'
    expect_all(other, ledger)
  end)

  it('that was answered is there after a failover by Sentinels', function()
    group = Cluster.sentinels { replicas = 2 }
    master = group:master()
    local broker = Broker.start { args = { '--store', group.url, '--confirm', 'replicas=1' } }
    brokers[#brokers + 1] = broker
    local c = broker:connect()
    c:ok 'DECLARE queue jobs'
    local lines = {}
    for i = 1, 500 do lines[i] = ('PUB - jobs %d\r\n%d\r\n'):format(#tostring(i), i) end
    for from = 1, 401, 100 do
      c:send(table.concat(lines, '', from, from + 99))
      if from == 201 then master:kill9() end
      if from < 201 then for _ = 1, 100 do c:expect '^OK %x+ 1$' end end
    end
    for _ = 1, 300 do c:expect('^OK %x+ 1$', 60) end
    assert.is_not.equal(master.port, group:master().port)
    assert.equal(500, group:master():ok('HLEN', MSG:format 'jobs'))
  end)

  it('waits for the replicas of its own master in a Redis Cluster, through a failover', function()
    group = Cluster.start { masters = 3, replicas = 3 }
    local broker = Broker.start {
      args = { '--store', group.url, '--confirm', 'replicas=1' }, http = '127.0.0.1:0',
    }
    brokers[#brokers + 1] = broker
    local c, d = broker:connect(), broker:connect()
    for i = 1, 8 do c:ok('DECLARE queue q' .. i) end
    local node, other = group:master_of(MSG:format 'q1')
    for i = 2, 8 do
      if group:master_of(MSG:format('q' .. i)) ~= node then other = 'q' .. i end
    end
    local replica = group:replica_of(node)
    replica:stop()
    c:send 'PUB - q1 1\r\nx\r\n'
    expect_reason(broker, 'replicas')
    d:ok('PUB - ' .. other, 'x')
    expect_unanswered(c)
    replica:cont()
    c:expect '^OK %x+ 1$'
    c:send(('PUB - q1 1\r\ny\r\n'):rep(100))
    group:failover(replica)
    for _ = 1, 100 do c:expect('^OK %x+ 1$', 60) end
    assert.equal(101, replica:ok('HLEN', MSG:format 'q1'))
    broker:expect_clean_stop()
  end)

  needs.redis(it, 7, 2)('is not answered before a replica has it on disk, with synced=N', function()
    fsync = 'always'
    start_redis(2)
    local broker, c = start 'synced=1'
    assert.equal('synced=1', c:document('HELLO').confirm)
    broker:expect_log '%-%-confirm synced=1'
    c:ok 'DECLARE queue jobs'
    c:ok 'DECLARE topic events partitions=1'
    for i = 1, 40 do
      c:ok('PUB - jobs', tostring(i))
      c:ok('PUB - events', tostring(i))
    end
    c:ok('ACK ' .. c:get('jobs')[1].tag)
    -- Both have it in memory, and neither says that it is on disk: the second one has no such file.
    replicas[2]:ok('CONFIG', 'SET', 'appendonly', 'no')
    replicas[1]:ok('CONFIG', 'SET', 'appendfsync', 'no')
    c:send 'PUB - jobs 2\r\n41\r\n'
    expect_reason(broker, 'replicas')
    for _, replica in ipairs(replicas) do
      assert(wait.poll(function() return replica:ok('HLEN', MSG:format 'jobs') == 40 end))
    end
    expect_unanswered(c)
    replicas[1]:ok('CONFIG', 'SET', 'appendfsync', 'always')
    c:send 'PUB - jobs 2\r\n42\r\n'
    for _ = 1, 2 do c:expect '^OK %x+ 1$' end
    expect_reason(broker, nil)
    -- A replica that has lost its memory has all of it.
    replicas[1]:kill9()
    replicas[1]:restart()
    assert.equal(41, replicas[1]:ok('HLEN', MSG:format 'jobs'))
    broker:expect_clean_stop()
  end)

  needs.redis(it, 7, 2)('that was answered with synced=N outlives a kill of all', function()
    fsync = 'always'
    start_redis(2)
    local broker, c = start 'synced=2'
    local ledger = work_until_killed(c, 500)
    broker:kill9()
    for _, replica in ipairs(replicas) do replica:kill9() end
    for _, replica in ipairs(replicas) do replica:restart() end
    promote(replicas[1])
    local _, other = start 'synced=2'
    expect_all(other, ledger)
  end)

  it('goes on at a replica that had not heard of this start', function()
    start_redis(1)
    local replica = replicas[1]
    replica:ok('REPLICAOF', 'NO', 'ONE')
    local broker, c = start 'replicas=1'
    expect_reason(broker, 'replicas')
    c:send 'DECLARE queue jobs\r\n'
    master:kill9()
    promote(replica)
    add_replica()
    c:expect('^OK', 30)
    c:ok('PUB - jobs', 'x')
    assert.equal(1, replicas[2]:ok('HLEN', MSG:format 'jobs'))
  end)
end)

describe('a level of --confirm', function()
  local function refused(redis, ...)
    local _, log, status = Broker.start { args = { ... }, redis = redis, may_fail = true }
    return log, status
  end

  it('synced=N needs Redis 7.2, and an append-only file', function()
    local log, status = refused({ '--appendonly', 'no' }, '--confirm', 'synced=1')
    assert.equal(1, status)
    local text = log:match '^tidemq: Redis at %S+: %-%-confirm synced=1 needs ([^\n]*)'
    local is_old = text:find '^Redis 7.2 or newer, this one is [67]%.[01]%.%d+; %-%-confirm replicas=1 needs none$'
    assert.is_truthy(is_old or text:find '^an append%-only file: run CONFIG SET appendonly yes, on the replicas too$')
  end)

  needs.redis(it, 7, 2)('synced=N needs a Redis that syncs its file', function()
    local log, status = refused({ '--appendfsync', 'no' }, '--confirm', 'synced=1')
    assert.equal(1, status)
    assert.matches('^tidemq: Redis at %S+: %-%-confirm synced=1 needs appendfsync always or everysec: run CONFIG SET '
      .. 'appendfsync always, on the replicas too\n', log)
  end)

  it('needs a Redis with replicas', function()
    for _, store in ipairs { 'embedded', 'none' } do
      local log, status = refused(nil, '--store', store, '--confirm', 'replicas=1')
      assert.equal(2, status)
      assert.matches('%-%-confirm above master needs a Redis with replicas, %-%-store redis://HOST, not %-%-store '
        .. store, log)
    end
  end)

  it('is a word of three, in a file too', function()
    local log, status = refused(nil, '--confirm', 'quorum')
    assert.equal(2, status)
    assert.matches("%-%-confirm must be master, replicas=N or synced=N with N from 1 to 100, not 'quorum'", log)
    local broker = Broker.start { config = 'return { confirm = "master" }' }
    assert.equal('master', broker:connect():document('HELLO').confirm)
    broker:expect_clean_stop()
  end)
end)
