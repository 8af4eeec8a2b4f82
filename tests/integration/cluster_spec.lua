-- A broker on a Redis Cluster, through all that happens to one: no message is lost, doubled or out of order.
local Broker = require 'support.broker'
local Cluster = require 'support.cluster'
local shell = require 'support.shell'
local wait = require 'support.wait'

describe('a broker on a Redis Cluster', function()
  local cluster, broker, c
  local round = 0
  local queues -- two for each third of the slots
  local sent -- by queue: how many

  local function start(url) return Broker.start { args = { '--store', url or cluster.url } } end

  setup(function()
    cluster = Cluster.start()
    broker = start()
  end)
  teardown(function()
    broker:destroy()
    cluster:close()
  end)

  local function key(queue) return ('tide:{//%s#0}:msg'):format(queue) end

  before_each(function()
    if not broker:is_running() then broker:run() end
    c = broker:connect()
    round, queues, sent = round + 1, {}, {}
    local number = 0
    for i = 1, 6 do
      repeat
        number = number + 1
        queues[i] = ('r%dq%d'):format(round, number)
      until cluster:slot(key(queues[i])) * 3 // 16384 == i % 3
      sent[queues[i]] = 0
      c:ok('DECLARE queue ' .. queues[i])
    end
  end)
  after_each(function()
    c:close()
    cluster:heal()
  end)

  --- So many to the queues in turn, without waiting.
  local function send(count, to)
    to = to or queues
    for i = 1, count do
      local queue = to[i % #to + 1]
      sent[queue] = sent[queue] + 1
      c:send(('PUB - %s 6\r\n%06d\r\n'):format(queue, sent[queue]))
    end
  end

  local function expect_confirms(count)
    for _ = 1, count do c:expect('^OK %x+ 1$', 60) end
  end

  local function publish(count, to)
    send(count, to)
    expect_confirms(count)
  end

  --- Each message is there once, in the order of the publishes.
  local function expect_all()
    for _, queue in ipairs(queues) do
      assert.equal(sent[queue], c:stats(queue).ready)
      local got = 0
      while got < sent[queue] do
        local messages = c:get(queue .. ' max=200 ack=auto')
        assert.is_true(#messages > 0)
        for _, m in ipairs(messages) do
          got = got + 1
          assert.equal(got, tonumber(m.payload))
        end
      end
      sent[queue] = 0
    end
  end

  local function reconnect()
    c:close()
    c = broker:connect()
  end

  local function other_than(node)
    for _, master in ipairs(cluster:masters()) do
      if master ~= node then return master end
    end
  end

  it('takes all that a single Redis takes, and a start finds it again', function()
    local vhost = 'v' .. round
    c:ok('DECLARE vhost ' .. vhost)
    reconnect()
    c:document('HELLO vhost=' .. vhost)
    c:ok 'DECLARE queue jobs shards=4'
    c:ok 'DECLARE queue late'
    c:ok 'DECLARE topic log partitions=4'
    c:ok 'DECLARE exchange orders topic'
    c:ok 'BIND jobs orders eu.#'
    for i = 1, 20 do c:ok(('PUB orders eu.%d'):format(i), 'o' .. i) end
    for i = 1, 20 do c:ok('PUB - log', 'l' .. i) end
    c:ok('PUB - late delay=1h', 'later')
    local held = c:get 'jobs max=3'
    c:ok('ACK ' .. held[1].tag)
    c:ok('NACK ' .. held[2].tag)
    c:ok 'LOCK migration ttl=1h'
    c:ok 'PAUSE late in'
    broker:restart()
    reconnect()
    c:document('HELLO vhost=' .. vhost)
    local stats = c:stats 'jobs'
    assert.equal(19, stats.ready + stats.delayed + stats.unacked)
    assert.equal(1, c:stats('late').delayed)
    local deadline = wait.deadline(60)
    local left = 19
    while left > 0 do
      left = left - #c:get 'jobs max=50 ack=auto wait=1s'
      assert(wait.left(deadline) > 0)
    end
    c:ok('PUB orders eu.new', 'new')
    assert.equal('new', c.payload_text(c:get 'jobs ack=auto'))
    local keys = 0
    for _, master in ipairs(cluster:masters()) do keys = keys + #master:ok('KEYS', '*{' .. vhost .. '/log#*') end
    assert.is_true(keys > 0)
  end)

  for _, how in ipairs { 'plain', 'FORCE', 'TAKEOVER' } do
    it('follows a failover under load: ' .. how, function()
      for _, of in ipairs { key(queues[1]), '{tide}:holder' } do
        local old = cluster:master_of(of)
        local new = cluster:replica_of(old)
        publish(300)
        send(300)
        assert(cluster:failover(new, how ~= 'plain' and how or nil))
        send(300)
        expect_confirms(600)
        cluster:wait_ok()
        broker:expect_log(('the slots of the master at %s are those of %s now'):format(old.address, new.address)
          :gsub('%p', '%%%0') .. '')
      end
      expect_all()
    end)
  end

  it('outlives kill -9 of each master in turn', function()
    for i = 1, 3 do
      local master = cluster:master_of(key(queues[i]))
      cluster:wait_votes_over(cluster:replica_of(master))
      send(200)
      master:kill9()
      send(200)
      expect_confirms(400)
      cluster:heal()
    end
    expect_all()
  end)

  it('serves the queues of others while a master is stopped', function()
    local master = cluster:master_of(key(queues[1]))
    local its, others = {}, {}
    for _, queue in ipairs(queues) do
      local list = cluster:master_of(key(queue)) == master and its or others
      list[#list + 1] = queue
    end
    publish(60)
    local waiting = c
    master:stop()
    send(#its, its)
    c = broker:connect()
    publish(300, others)
    assert.equal(sent[others[1]], c:stats(others[1]).ready)
    c:close()
    c = waiting
    master:cont()
    expect_confirms(#its)
    expect_all()
  end)

  --- More than the sockets between a master and its replica take: what they had when the master ended would
  --- reach the replica all the same.
  local function overfill(master)
    local body, i = ('x'):rep(100000), 0
    local name
    repeat
      i = i + 1
      name = ('b%dx%d'):format(round, i)
    until cluster:master_of(key(name)) == master
    c:ok('DECLARE queue ' .. name)
    for _ = 1, 200 do c:send(('PUB - %s %d\n%s\n'):format(name, #body, body)) end
    for _ = 1, 200 do assert.matches('^OK', c:read_line()) end
  end

  it('sends a replica that was promoted what it lacked', function()
    for _, of in ipairs { key(queues[1]), '{tide}:holder' } do
      publish(60)
      local master = cluster:master_of(of)
      local replica = cluster:replica_of(master)
      replica:stop()
      publish(600)
      overfill(master)
      if of == '{tide}:holder' then c:ok(('DECLARE queue r%dlate'):format(round)) end
      master:kill9()
      replica:cont()
      assert(cluster:failover(replica, 'TAKEOVER'))
      publish(600)
      broker:expect_log(('Redis at %s lacks the last %%d+ writes of the master before it'):format(
        (replica.address:gsub('%p', '%%%0'))))
      cluster:heal()
    end
    broker:restart()
    reconnect()
    expect_all()
    c:ok(('PUB - r%dlate'):format(round), 'x')
  end)

  it('goes on while slots move, and when they stay open half way', function()
    for i, queue in ipairs(queues) do
      local slot = cluster:slot(key(queue))
      local from = cluster:master_of(slot)
      local to = other_than(from)
      send(200)
      local is_halfway = i % 2 == 0
      cluster:migrate_slot(slot, from, to, is_halfway and 1 or nil)
      send(100)
      if is_halfway then cluster:fix_slot(slot, from, to) end
      expect_confirms(300)
    end
    broker:restart()
    reconnect()
    expect_all()
  end)

  it('gives up what a master cannot read, and its slot moves nevertheless', function()
    local slot = cluster:slot(key(queues[1]))
    local from = cluster:master_of(slot)
    local body = ('x'):rep(2 << 20)
    publish(60)
    -- The broker has asked for it when it connected.
    from:ok('CONFIG', 'SET', 'proto-max-bulk-len', 1 << 20)
    c:send(('PUB - %s %d\r\n%s\r\n'):format(queues[1], #body, body))
    c:expect('^ERR store ', 60)
    from:ok('CONFIG', 'SET', 'proto-max-bulk-len', 512 << 20)
    publish(60)
    cluster:migrate_slot(slot, from, other_than(from))
    publish(60)
    expect_all()
  end)

  it('goes on when the slot of {tide} moves', function()
    local slot = cluster:slot '{tide}:holder'
    for _ = 1, 2 do
      local from = cluster:master_of(slot)
      local to = other_than(from)
      send(200)
      cluster:migrate_slot(slot, from, to)
      send(60)
      expect_confirms(260)
      c:ok(('DECLARE queue r%d%s'):format(round, to.id))
      c:ok(('DELETE queue r%d%s'):format(round, to.id))
    end
    expect_all()
  end)

  it('takes a new master, and leaves one that gives all away', function()
    local slots = {}
    for i, queue in ipairs(queues) do slots[i] = cluster:slot(key(queue)) end
    slots[#slots + 1] = cluster:slot '{tide}:holder'
    local home = {}
    for i, slot in ipairs(slots) do home[i] = cluster:master_of(slot) end
    local new = cluster:add_node()
    new:ok('CONFIG', 'SET', 'maxmemory-policy', 'allkeys-lru')
    for i, slot in ipairs(slots) do
      send(60)
      cluster:migrate_slot(slot, home[i], new)
      -- One that is not fit is waited for: only a start is refused by it.
      if i == 1 then
        broker:expect_log 'this Redis may evict messages'
        new:ok('CONFIG', 'SET', 'maxmemory-policy', 'noeviction')
      end
      expect_confirms(60)
    end
    assert.is_true(new:ok 'DBSIZE' > 0)
    send(300)
    for i, slot in ipairs(slots) do cluster:migrate_slot(slot, new, home[i]) end
    expect_confirms(300)
    cluster:remove_node(new)
    broker:expect_log(('the master at %s has no slots any more'):format((new.address:gsub('%p', '%%%0'))))
    publish(300)
    assert.equal('up', c:document('STATS').store.state)
    expect_all()
    broker:restart()
    reconnect()
  end)

  it('keeps a second broker away, which takes over after its end', function()
    publish(60)
    local _, why, status = Broker.start { args = { '--store', cluster.url }, may_fail = true }
    assert.equal(1, status)
    assert.matches('another broker holds this store', why)
    broker:kill9()
    local second = start()
    finally(function() second:destroy() end)
    c = second:connect()
    expect_all()
    -- Stopped as if its machine were, it is not the holder when it goes on.
    publish(60)
    second:signal 'STOP'
    broker:run()
    local former = c
    c = broker:connect()
    publish(60)
    second:signal 'CONT'
    for _, queue in ipairs(queues) do former:send(('PUB - %s 5\r\nstale\r\n'):format(queue)) end
    assert.is_truthy(wait.poll(function() return not second:is_running() end, 60), second:log())
    assert.matches('another broker has taken the store over', second:log())
    former:close()
    expect_all()
  end)

  describe('that is started', function()
    local function refused(url, pattern)
      local _, why, status = Broker.start { args = { '--store', url }, may_fail = true }
      assert.equal(1, status)
      assert.matches(pattern, why)
      assert.is_nil(why:find('secret', 1, true))
    end

    before_each(function() broker:expect_clean_stop() end)

    it('finds all masters from a replica', function()
      for _, node in ipairs { cluster:of_role 'slave'[1], cluster:masters()[1] } do
        local other = start('redis://' .. node.address)
        finally(function() other:destroy() end)
        c = other:connect()
        publish(60)
        expect_all()
        other:expect_clean_stop()
      end
    end)

    it('with a database number is refused', function()
      refused(cluster.url .. '/1', 'a Redis Cluster has database 0 alone')
    end)

    it('gives its user and password to all of them', function()
      for _, node in ipairs(cluster.nodes) do
        node:ok('ACL', 'SETUSER', 'tide', 'on', '>secret', '~tide:*', '~{tide}:*', '+@all')
      end
      local address = cluster.nodes[1].address
      refused('redis://tide:secretive@' .. address, 'Redis does not accept the password')
      local other = start('redis://tide:secret@' .. address)
      finally(function() other:destroy() end)
      c = other:connect()
      local old = cluster:master_of(key(queues[1]))
      send(60)
      assert(cluster:failover(cluster:replica_of(old)))
      send(60)
      expect_confirms(120)
      expect_all()
      other:expect_clean_stop()
      assert.is_nil(other:log():find('secret', 1, true))
    end)

    it('is checked as a whole', function()
      local text, status = shell.run(('%s check-store --store %s 2>&1'):format(shell.quote(Broker.binary()),
        cluster.url))
      assert.equal(0, status, text)
    end)
  end)
end)
