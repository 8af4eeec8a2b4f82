-- What people see of a Redis Cluster: check-store, the table of masters, health, warnings.
local Broker = require 'support.broker'
local Cluster = require 'support.cluster'
local Browser = require 'support.browser'
local Http = require 'support.http'
local needs = require 'support.needs'
local shell = require 'support.shell'
local wait = require 'support.wait'

local SHARDS = 16

describe('a broker on a Redis Cluster', function()
  local cluster, broker

  setup(function()
    cluster = Cluster.start()
    broker = Broker.start { args = { '--store', cluster.url }, http = '127.0.0.1:0' }
  end)
  teardown(function()
    broker:destroy()
    cluster:close()
  end)

  describe('is checked by check-store', function()
    local function command(...)
      local words = { shell.quote(Broker.binary()), 'check-store', '--store', cluster.url, ... }
      return 'timeout 60 ' .. table.concat(words, ' ') .. ' 2>&1 </dev/null'
    end
    local function check(...) return shell.run(command(...)) end

    local function key(shard, name) return ('tide:{//many#%d}:%s'):format(shard, name) end

    local ids = {} -- the front of a shard of each master, by its address

    setup(function()
      local c = broker:connect()
      c:ok('DECLARE queue many sharding=round_robin shards=' .. SHARDS)
      for _ = 1, 2 * SHARDS do c:ok('PUB - many', 'abc') end
      broker:expect_clean_stop()
      for shard = 0, SHARDS - 1 do
        local address = cluster:master_of(key(shard, 'msg')).address
        local id = cluster:command('ZRANGE', key(shard, 'ready'), 0, 0)[1]
        ids[address] = ids[address] or { shard = shard, id = id }
      end
    end)
    teardown(function() broker:run() end)

    it('which finds nothing wrong on any master, and knows the record of each', function()
      local text, status = check()
      assert.equal(0, status, text)
      assert.matches('^%d+ keys, %d+ entries: 0 findings\n$', text)
      assert.equal(#cluster:keys '*tide*:*', tonumber(text:match '^%d+'))
      assert.equal(3, #cluster:keys '*:holder')
    end)

    it('which finds damage on each master, and repairs it', function()
      local lines = {}
      for _, master in ipairs(cluster:masters()) do
        local at = assert(ids[master.address], 'no shard of 16 there')
        assert.equal(1, (cluster:command('ZREM', key(at.shard, 'ready'), at.id)))
        lines[#lines + 1] = ('%s %s: the message is in no set; --repair makes it ready'):format(
          key(at.shard, 'msg'), at.id)
        local lost = ('tide:{//gone#%d}:ready'):format(at.shard)
        cluster:command('ZADD', lost, 1, 'x')
      end
      local text, status = check()
      assert.equal(1, status, text)
      for _, line in ipairs(lines) do assert.truthy(text:find(line, 1, true), text) end
      for _, at in pairs(ids) do
        local lost = ('tide:{//gone#%d}:ready: there is no such shard'):format(at.shard)
        assert.truthy(text:find(lost, 1, true), text)
        cluster:command('DEL', ('tide:{//gone#%d}:ready'):format(at.shard))
      end
      text, status = check '--repair'
      assert.equal(0, status, text)
      assert.matches(': 3 findings, 3 repaired\n$', text)
      text, status = check()
      assert.equal(0, status, text)
    end)

    it('which goes on at a further master', function()
      local slot = 16384 * 2 // 3
      local text, status = check('--resume-from', slot .. ':0')
      assert.equal(0, status, text)
      local last = cluster:master_of(16383)
      assert.equal(#last:ok('KEYS', '*'), tonumber(text:match '^%d+'), text)
    end)

    it('which leaves keys to their master while a slot is moved, and waits for it', function()
      local masters = {}
      for _, name in ipairs { 0, 16383 } do masters[#masters + 1] = cluster:master_of(name) end
      local name = key(ids[masters[1].address].shard, 'msg')
      cluster:migrate_slot(name, masters[1], masters[2], 1)
      local process = assert(io.popen(command()))
      cluster:fix_slot(name, masters[1], masters[2])
      local text = process:read 'a'
      assert.is_true(process:close(), text)
    end)
  end)

  local function stats()
    local c = broker:connect()
    local document = c:document 'STATS'
    c:close()
    return document
  end
  local function ready() return Http.connect(broker):get '/health/ready' end
  local function becomes(probe) assert(wait.poll(probe, 30), ready().body .. broker:log()) end
  local function reason(document, sentence)
    for _, one in ipairs(document.reasons) do
      if one.code == 'store' and one.text:find(sentence) then return one.text end
    end
  end
  local function warning(code)
    for _, one in ipairs(ready().json.warnings) do
      if one.code == code then return one.text end
    end
  end

  it('shows a row for each master, in STATS and /metrics', function()
    local slots = {}
    becomes(function()
      local store = stats().store
      assert.equal('cluster', store.kind)
      assert.equal(0, store.slots_without_master)
      assert.equal(3, #store.masters)
      local replicas, memory = 0, 0
      for _, one in ipairs(store.masters) do
        assert.equal('up', one.state)
        assert.is_true(one.up)
        assert.equal(0, one.reconnects)
        slots[one.address] = one.slots
        replicas = replicas + one.replicas
        memory = memory + (one.memory_bytes or 0)
      end
      return replicas == 3 and store.memory_bytes == memory and memory > 3 * 500000
    end)
    local metrics = Http.connect(broker):get('/metrics').body
    for _, master in ipairs(cluster:masters()) do
      assert.matches('^546[0-3]$', tostring(slots[master.address]))
      for name, value in pairs { up = 1, slots = slots[master.address], replicas = 1, reconnects_total = 0 } do
        local line = ('tidemq_store_master_%s{master="%s"} %d\n'):format(name, master.address, value)
        assert.truthy(metrics:find(line, 1, true), line .. metrics)
      end
    end
  end)

  it('counts the masters in tidemq top', function()
    local text = shell.run(('timeout 60 %s top --once --url %s 2>&1 </dev/null'):format(
      shell.quote(Broker.binary()), shell.quote(broker:url())))
    assert.matches('  loop [%d.]+%%  masters 3/3\n', text)
  end)

  needs.browser(describe)('on the dashboard', function()
    it('shows the masters', function()
      local browser = Browser.start()
      finally(function() browser:destroy() end)
      browser:open(broker, '#/overview')
      for _, master in ipairs(cluster:masters()) do browser:expect_text('table[data-table=masters]', master.address) end
      browser:expect_text('table[data-table=masters]', '5,461')
      browser:expect_no_problems()
    end)
  end)

  it('warns of the master whose memory is nearly full', function()
    local master = cluster:masters()[2]
    local used = tonumber(master:info('memory', 'used_memory'))
    master:ok('CONFIG', 'SET', 'maxmemory', math.floor(used * 1.1))
    becomes(function() return (warning 'store-memory' or ''):find '^a master of Redis .* of its maxmemory' end)
    assert.is_nil(stats().store.memory_max_bytes)
    master:ok('CONFIG', 'SET', 'maxmemory', 0)
    becomes(function() return not warning 'store-memory' end)
  end)

  it('names the master that is away, to those who may see names', function()
    local master = cluster:masters()[3]
    local replica = cluster:replica_of(master)
    replica:stop()
    master:kill9()
    becomes(function() return ready().status == 503 end)
    becomes(function() return reason(stats().health, '^the Redis at ' .. master.address:gsub('%p', '%%%0')) end)
    assert.matches('is away: what belongs to its %d+ slots waits; see whether it runs',
      reason(stats().health, 'is away'))
    assert.matches('^1 of 3 masters of the Redis Cluster is away: what belongs to %d+ slots waits; see whether it runs',
      reason(ready().json, 'is away'))
    assert.is_nil(ready().body:find('127.0.0.1', 1, true))
    local metrics = Http.connect(broker):get('/metrics').body
    assert.truthy(metrics:find(('tidemq_store_master_up{master="%s"} 0\n'):format(master.address), 1, true), metrics)
    replica:cont()
    cluster:heal()
    becomes(function() return ready().status == 200 end)
  end)

  it('tells of slots without a master, and check-store too', function()
    local slot = 2
    local master = cluster:master_of(slot)
    for _, node in ipairs(cluster.nodes) do node:ok('CLUSTER', 'DELSLOTS', slot) end
    local sentence = '^slots of the Redis Cluster without a master: 1; .* start the masters$'
    becomes(function() return reason(ready().json, sentence) end)
    assert.equal(1, stats().store.slots_without_master)
    local text, status = shell.run(('timeout 60 %s check-store --store %s 2>&1 </dev/null'):format(
      shell.quote(Broker.binary()), cluster.url))
    assert.equal(1, status, text)
    assert.matches('slots of the Redis Cluster without a master, which were not checked: 1\n', text)
    master:ok('CLUSTER', 'ADDSLOTS', slot)
    cluster:wait_ok()
    becomes(function() return ready().status == 200 end)
  end)

  it('counts slots whose requests wait', function()
    local c = broker:connect()
    c:ok 'DECLARE queue moved'
    local name = 'tide:{//moved#0}:msg'
    local from = cluster:master_of(name)
    local to = from == cluster:masters()[1] and cluster:masters()[2] or cluster:masters()[1]
    cluster:migrate_slot(name, from, to, 0)
    c:send 'PUB - moved 3\r\nabc\r\n'
    becomes(function() return stats().store.slots_held == 1 end)
    assert.matches('tidemq_store_slots_held 1\n', Http.connect(broker):get('/metrics').body)
    cluster:fix_slot(name, from, to)
    c:expect '^OK %x+ 1$'
    becomes(function() return stats().store.slots_held == 0 end)
    c:close()
  end)

  it('says once at the start which settings a cluster should not have', function()
    broker:expect_clean_stop()
    for _, node in ipairs(cluster.nodes) do node:ok('CONFIG', 'SET', 'cluster-allow-replica-migration', 'yes') end
    broker:run()
    local _, count = broker:log():gsub('the Redis at 127.0.0.1:%d+ has cluster%-allow%-replica%-migration yes %(', '')
    assert.equal(1, count, broker:log())
    for _, node in ipairs(cluster.nodes) do node:ok('CONFIG', 'SET', 'cluster-allow-replica-migration', 'no') end
  end)
end)
