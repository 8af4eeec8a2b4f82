--- What `make chaos STORE=cluster` and `STORE=sentinel` do to the Redis servers, in the form of faults.lua. At
--- the end of a round `Place:start` heals the servers: what was killed runs again, and the cluster is whole.
local Net = require 'chaos.support.net'
local shell = require 'support.shell'
local socket = require 'socket'

-- Masters are replaced after one to three seconds.
local OUTAGE_S = 5

--- A master of the cluster that its replica can replace, and that replica.
local function a_pair(p)
  local masters = p.cluster:masters()
  local master = masters[math.random(#masters)]
  local replica = assert(p.cluster:replica_of(master))
  p.cluster:wait_votes_over(replica)
  return master, replica
end

--- One that may be without its replica.
local function a_master(p)
  local masters = p.many:masters()
  return masters[math.random(#masters)]
end

--- A slot of the traffic's, its master, and another one.
local function a_move(p)
  local keys = p.cluster:keys 'tide:{*'
  local slot = p.cluster:slot(math.random(5) == 1 and '{tide}' or keys[math.random(#keys)])
  local from = p.cluster:master_of(slot)
  local to = a_master(p)
  while to == from do to = a_master(p) end
  return slot, from, to
end

local function failover(how)
  return {
    needs = 'cluster', is_of_many = true, seconds = 3,
    -- What a forced replica has not got yet is lost, unless the master has told nobody.
    begin = function(p)
      local _, replica = a_pair(p)
      replica.promoted_at = socket.gettime()
      replica:command('CLUSTER', 'FAILOVER', how)
    end,
  }
end

local function sentinel_fault(begin)
  return { needs = 'sentinel', is_of_many = true, seconds = 2 * OUTAGE_S, begin = begin }
end

---@type table<string, Fault>
return {
  ['kill -9 of a master of three'] = {
    needs = 'cluster', is_of_many = true, seconds = OUTAGE_S,
    begin = function(p) a_pair(p):kill9() end,
  },
  ['kill -9 of a master that comes back'] = {
    needs = 'cluster', is_of_many = true, seconds = OUTAGE_S,
    begin = function(p)
      local master = a_pair(p)
      master:kill9()
      master:launch()
    end,
  },
  ['SIGSTOP of a master of three'] = {
    needs = 'cluster', is_of_many = true, seconds = OUTAGE_S,
    begin = function(p) a_pair(p):stop() end,
  },
  ['kill -9 of a replica of three'] = {
    needs = 'cluster', is_of_many = true, seconds = OUTAGE_S,
    begin = function(p) select(2, a_pair(p)):kill9() end,
  },
  ['kill -9 of a master and the broker'] = {
    needs = 'cluster', is_of_many = true, level = 'replicated', seconds = OUTAGE_S,
    begin = function(p)
      a_pair(p):kill9()
      p:kill_broker()
    end,
  },
  -- It takes writes until it has missed the others for the node timeout.
  ['a master cut off from the others'] = {
    needs = 'net', is_of_many = true, seconds = OUTAGE_S,
    begin = function(p) Net.cut(p.cluster, { (a_pair(p)) }) end,
    finish = function() Net.heal() end,
  },
  ['a master and its replica cut off'] = {
    needs = 'net', is_of_many = true, seconds = OUTAGE_S,
    begin = function(p) Net.cut(p.cluster, { a_pair(p) }) end,
    finish = function() Net.heal() end,
  },
  ['a majority of masters cut off'] = {
    needs = 'net', is_of_many = true, seconds = OUTAGE_S,
    begin = function(p)
      local one, two = table.unpack(p.cluster:masters())
      for _, master in ipairs { one, two } do p.cluster:wait_votes_over(assert(p.cluster:replica_of(master))) end
      Net.cut(p.cluster, { one, two })
    end,
    finish = function() Net.heal() end,
  },
  ['CLUSTER FAILOVER'] = failover(),
  ['CLUSTER FAILOVER FORCE'] = failover 'FORCE',
  ['CLUSTER FAILOVER TAKEOVER'] = failover 'TAKEOVER',
  ['a slot that moves'] = {
    needs = 'cluster', is_of_many = true, seconds = 2,
    begin = function(p) p.cluster:migrate_slot(a_move(p)) end,
  },
  ['a slot that stays open'] = {
    needs = 'cluster', is_of_many = true, seconds = 4,
    begin = function(p)
      local slot, from, to = a_move(p)
      p.cluster:migrate_slot(slot, from, to, math.random(3))
      p.open = { slot, from, to }
    end,
    finish = function(p)
      if math.random(2) == 1 then return p.cluster:fix_slot(table.unpack(p.open)) end
      p:end_broker()
      local output, status = p.cluster:fix()
      assert(status == 0, output)
    end,
  },
  ['a slot whose move is cancelled'] = {
    needs = 'cluster', is_of_many = true, seconds = 2,
    begin = function(p)
      local slot, from, to = a_move(p)
      p.cluster:migrate_slot(slot, from, to, 0)
      p.open = { slot, from, to }
    end,
    -- The broker makes keys at the source alone: it follows no ASK.
    finish = function(p) p.cluster:cancel_slot(table.unpack(p.open)) end,
  },
  ['no memory at one of three'] = {
    needs = 'cluster', is_of_many = true, seconds = 2,
    begin = function(p)
      p.small = a_master(p)
      p.small:ok('CONFIG', 'SET', 'maxmemory', '1mb')
    end,
    finish = function(p) p.small:ok('CONFIG', 'SET', 'maxmemory', '0') end,
  },
  ['too few replicas at one of three'] = {
    needs = 'cluster', is_of_many = true, seconds = 2,
    begin = function(p)
      p.alone = a_master(p)
      p.alone:ok('CONFIG', 'SET', 'min-replicas-to-write', '2')
    end,
    finish = function(p) p.alone:ok('CONFIG', 'SET', 'min-replicas-to-write', '0') end,
  },
  ['full disk at one of three'] = {
    needs = 'disks', is_of_many = true, seconds = OUTAGE_S,
    begin = function(p)
      p.full = a_pair(p)
      local dir = shell.quote(p.full.dir)
      local left = shell.line(('df --output=avail -B1 %s | tail -n 1'):format(dir))
      os.execute(('fallocate -l %d %s/ballast 2>/dev/null'):format(
        math.max(4096, tonumber(left) - math.random(0, 40) * 4096), dir))
    end,
    finish = function(p) os.remove(p.full.dir .. '/ballast') end,
  },
  ['SENTINEL FAILOVER'] = sentinel_fault(function(p)
    p.sentinel.watchers[1]:command('SENTINEL', 'FAILOVER', p.sentinel.name)
  end),
  ['kill -9 of the master of Sentinels'] = sentinel_fault(function(p) p.sentinel:master():kill9() end),
  ['SIGSTOP of the master of Sentinels'] = sentinel_fault(function(p) p.sentinel:master():stop() end),
  ['kill -9 of the replica of Sentinels'] = sentinel_fault(function(p)
    for _, node in ipairs(p.sentinel.nodes) do
      if node ~= p.sentinel:master() then return node:kill9() end
    end
  end),
  ['kill -9 of a Sentinel'] = sentinel_fault(function(p)
    p.sentinel.watchers[math.random(p.sentinel.count)]:kill9()
  end),
  ['SIGSTOP of all Sentinels'] = sentinel_fault(function(p)
    for _, watcher in ipairs(p.sentinel.watchers) do watcher:stop() end
  end),
  ['kill -9 of master and broker'] = {
    needs = 'sentinel', is_of_many = true, level = 'replicated', seconds = 2 * OUTAGE_S,
    begin = function(p)
      p.sentinel:master():kill9()
      p:kill_broker()
    end,
  },
}
