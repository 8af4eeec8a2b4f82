-- The support of the tests on Redis Cluster and Sentinel: does it do to real servers what it says?
local Cluster = require 'support.cluster'

local KEYS = { 'tide:{//jobs#0}:msg', 'tide:{//jobs#0}:ready', 'tide:{//jobs#0}:unack' }

describe('a Redis Cluster for tests', function()
  local cluster

  setup(function() cluster = Cluster.start() end)
  teardown(function() cluster:close() end)
  before_each(function()
    for _, key in ipairs(KEYS) do assert.equal('OK', (cluster:command('SET', key, 'value'))) end
  end)

  local function expect_keys()
    for _, key in ipairs(KEYS) do assert.equal('value', (cluster:command('GET', key))) end
    assert.same(KEYS, cluster:keys())
  end

  it('has a replica for each master, and keys in their slots', function()
    assert.equal(3, #cluster:masters())
    for _, master in ipairs(cluster:masters()) do assert.is_truthy(cluster:replica_of(master)) end
    local _, err = cluster:replica_of(cluster:master_of(KEYS[1])):command('GET', KEYS[1])
    assert.matches('^MOVED ', err)
    expect_keys()
  end)

  for _, how in ipairs { 'plain', 'FORCE', 'TAKEOVER' } do
    it('promotes a replica: ' .. how, function()
      local old = cluster:master_of(KEYS[1])
      local new = cluster:replica_of(old)
      assert.is_true(cluster:failover(new, how ~= 'plain' and how or nil))
      cluster:wait_ok()
      assert.equal(new.address, cluster:master_of(KEYS[1]).address)
      assert.equal(old.address, cluster:replica_of(new).address)
      expect_keys()
    end)
  end

  it('moves a slot, half of it, the rest, and back', function()
    local from = cluster:master_of(KEYS[1])
    local to = cluster:masters()[1] == from and cluster:masters()[2] or cluster:masters()[1]
    cluster:migrate_slot(KEYS[1], from, to, 0)
    cluster:cancel_slot(KEYS[1], from, to)
    expect_keys()
    assert.equal(2, cluster:migrate_slot(KEYS[1], from, to, 2))
    local _, err = from:command('MGET', table.unpack(KEYS))
    assert.matches('^TRYAGAIN ', err)
    cluster:fix_slot(KEYS[1], from, to)
    cluster:wait_ok()
    assert.equal(to.address, cluster:master_of(KEYS[1]).address)
    expect_keys()
    cluster:migrate_slot(KEYS[1], to, from, 1)
    local output, status = cluster:fix()
    assert.equal(0, status, output)
    cluster:wait_ok()
    expect_keys()
  end)

  it('promotes the replica of a master that was killed', function()
    local old = cluster:master_of(KEYS[1])
    local new = cluster:replica_of(old)
    cluster:wait_votes_over(new)
    old:kill9()
    assert.is_true(cluster:wait_promoted(new))
    cluster:heal()
    assert.equal(old.address, cluster:replica_of(new).address)
    expect_keys()
  end)
end)

describe('Sentinels for tests', function()
  local group

  setup(function() group = Cluster.sentinels() end)
  teardown(function() group:close() end)

  it('promote the replica on demand, and when the master is killed', function()
    local first, second = table.unpack(group.nodes)
    assert.equal('OK', first:command('SET', 'key', 'value'))
    first:kill9()
    group:wait_failover(first.address)
    assert.equal('value', (second:command('GET', 'key')))
    group:heal()
    assert.equal(second.address, group:master().address)
    group:failover()
    assert.equal(first.address, group:master().address)
    assert.equal('value', (first:command('GET', 'key')))
  end)

  it('have a master come back as one that was a replica at first', function()
    local second = group.nodes[2]
    if group:master() ~= second then group:failover() end
    second:kill9()
    second:restart()
    assert.equal('master', second:info('replication', 'role'))
    group:heal()
  end)
end)
