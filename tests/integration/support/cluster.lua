--- A real Redis Cluster on loopback, and a master with replicas under real Sentinels:
---
---   local cluster = Cluster.start { masters = 3, replicas = 3 }
---   local node = cluster:master_of 'tide:{//jobs#0}:msg'      -- or a slot
---   cluster:failover(cluster:replica_of(node))                -- or (replica, 'FORCE'), (replica, 'TAKEOVER')
---   cluster:migrate_slot(slot, node, other)                   -- or (slot, node, other, 2): two keys, then open
---   node:kill9()  node:restart()  node:stop()  node:cont()    -- support.redis_node
---   cluster:wait_ok()
---   cluster:close()
---
---   local group = Cluster.sentinels { replicas = 1, count = 3 }
---   group.url                                                 -- redis+sentinel://127.0.0.1:…,…/tide
---   group:failover()  group:master()
---
--- The nodes know each other from the files that they start with, so that nothing needs to meet; masters of
--- a cluster answer two seconds after their start (Redis's CLUSTER_WRITABLE_DELAY). All processes end with
--- the test process.
local Node = require 'support.redis_node'
local shell = require 'support.shell'
local socket = require 'socket'
local wait = require 'support.wait'

local SLOTS = 16384

---@class Cluster
---@field dir string
---@field nodes RedisNode[] the masters of the start come first, and then a replica of each
---@field url string for --store: of the first node
local Cluster = {}
Cluster.__index = Cluster

local function check_options(options, known)
  for name in pairs(options) do
    if not known[name] then error('there is no option ' .. name, 3) end
  end
  return options
end

local function words_of(node_dir, host, port, more)
  local words = { '--port', port, '--bind', host, '--bind-source-addr', host, '--protected-mode', 'no',
    '--dir', node_dir, '--save', '', '--appendonly', 'yes', '--appendfsync', 'always',
    '--repl-diskless-sync-delay', '0' }
  for _, word in ipairs(more) do words[#words + 1] = word end
  return words
end

-- ---- a cluster -----------------------------------------------------------

local function random_id()
  local file = assert(io.open '/dev/urandom')
  local id = file:read(20):gsub('.', function(byte) return ('%02x'):format(byte:byte()) end)
  file:close()
  return id
end

--- Where the other nodes, and clients with TLS, reach a node.
local function peer_port(node) return node.tls_port or node.port end

--- The words for a node that offers TLS at `port`, and takes nothing else among nodes.
local function tls_words(certs, port)
  return { '--tls-port', port, '--tls-cluster', 'yes', '--tls-replication', 'yes', '--tls-auth-clients', 'no',
    '--tls-cert-file', certs:cert 'server', '--tls-key-file', certs:key 'server',
    '--tls-ca-cert-file', certs:cert 'ca' }
end

--- What node `me` knows of all at its start.
local function known_nodes(nodes, me)
  local lines = {}
  for i, node in ipairs(nodes) do
    local role = node.follows and 'slave ' .. node.follows.id or 'master -'
    local flags = node == me and 'myself,' .. role or role
    lines[i] = ('%s %s:%d@%d %s 0 0 %d connected%s\n'):format(node.id, node.host, peer_port(node), node.bus_port, flags,
      node.follows and node.follows.epoch or node.epoch, node.slots and ' ' .. node.slots or '')
  end
  return table.concat(lines) .. ('vars currentEpoch %d lastVoteEpoch 0\n'):format(#nodes)
end

local function new_node(self, options, number)
  local dir, bus_port = ('%s/node%d'):format(self.dir, number), Node.free_port()
  local port, host = Node.free_port(), options.host and options.host(number) or '127.0.0.1'
  local tls_port = options.certs and Node.free_port()
  local words = words_of(dir, host, port, {
    '--cluster-enabled', 'yes', '--cluster-port', bus_port, '--cluster-config-file', 'nodes.conf',
    '--cluster-node-timeout', self.node_timeout_ms, '--cluster-require-full-coverage', 'no',
    '--cluster-allow-replica-migration', 'no', table.unpack(options.args or {}),
  })
  if tls_port then words = table.move(tls_words(options.certs, tls_port), 1, 14, #words + 1, words) end
  local node = Node.new(dir, words, port, host)
  if options.prepare then options.prepare(dir) end
  node.bus_port, node.tls_port = bus_port, tls_port
  return node
end

--- An empty cluster; its nodes wait for `launch`.
---@class ClusterOptions
---@field masters integer? default: 3
---@field replicas integer? as many as masters (the default), or none
---@field node_timeout_ms integer? default: 1000
---@field args (string|number)[]? more arguments for each redis-server
---@field prepare? fun(dir: string) is called with the directory of each node, before it is started
---@field certs Certs? nodes offer TLS as well, and take nothing else among themselves; `url` is rediss://
---@field host? fun(i: integer): string the address of each node, to others and to clients; default: 127.0.0.1

---@param options ClusterOptions?
---@return Cluster
function Cluster.new(options)
  options = check_options(options or {}, {
    masters = true, replicas = true, node_timeout_ms = true, args = true, prepare = true, host = true, certs = true,
  })
  local masters = options.masters or 3
  local replicas = options.replicas or masters
  assert(replicas == 0 or replicas == masters, 'a replica for each master, or none')
  local self = setmetatable({ nodes = {}, dir = shell.make_dir 'tidemq-cluster' }, Cluster)
  self.guard = Node.guard(self.dir)
  self.node_timeout_ms, self.options = options.node_timeout_ms or 1000, options
  for i = 1, masters + replicas do
    local node = new_node(self, options, i)
    node.id, node.epoch = random_id(), i
    node.follows = i > masters and self.nodes[i - masters] or nil
    if not node.follows then
      node.slots = ('%d-%d'):format(SLOTS * (i - 1) // masters, SLOTS * i // masters - 1)
    end
    self.nodes[i] = node
  end
  self.url = 'redis://' .. self.nodes[1].address
  if options.certs then
    self.url = ('rediss://localhost:%d?ca=%s'):format(self.nodes[1].tls_port, options.certs:cert 'ca')
  end
  return self
end

---@param options ClusterOptions?
---@return Cluster
function Cluster.start(options)
  local self = Cluster.new(options)
  for _, node in ipairs(self.nodes) do
    shell.write_file(node.dir .. '/nodes.conf', known_nodes(self.nodes, node))
    node:launch()
  end
  for _, node in ipairs(self.nodes) do node:expect_up() end
  self:wait_ok()
  return self
end

--- One more master, without a slot.
---@return RedisNode
function Cluster:add_node()
  local node, first = new_node(self, self.options, #self.nodes + 1), self.nodes[1]
  node:restart()
  node:ok('CLUSTER', 'MEET', first.host, peer_port(first), first.bus_port)
  node.id = node:ok('CLUSTER', 'MYID')
  self.nodes[#self.nodes + 1] = node
  self:wait_ok()
  return node
end

--- A node that has no slot leaves: all others forget it.
---@param node RedisNode
function Cluster:remove_node(node)
  for i, one in ipairs(self.nodes) do
    if one == node then table.remove(self.nodes, i) end
  end
  node:terminate()
  for _, one in ipairs(self.nodes) do one:ok('CLUSTER', 'FORGET', node.id) end
  self:wait_ok()
end

--- The nodes that run and are not stopped.
---@return RedisNode[]
function Cluster:living()
  local living = {}
  for _, node in ipairs(self.nodes) do
    if not node.is_stopped and node:is_running() then living[#living + 1] = node end
  end
  return living
end

---@class NodeView what a node says of another one
---@field id string
---@field is_master boolean
---@field is_failing boolean it is said to have failed, or not to answer
---@field follows string? the id of its master
---@field epoch integer of its configuration
---@field ranges integer[][] the slots of a master: first and last of each range

---@param node RedisNode
---@return NodeView[]?, string?
function Cluster:view(node)
  local text, err = node:command('CLUSTER', 'NODES')
  if not text then return nil, err end
  local view = {}
  for line in text:gmatch '[^\n]+' do
    local id, flags, master, epoch, slots = line:match '^(%x+) %S+ (%S+) (%S+) %S+ %S+ (%d+) %S+(.*)$'
    local one = {
      id = id, is_master = flags:find 'master' ~= nil, is_failing = flags:find 'fail' ~= nil,
      follows = master ~= '-' and master or nil, epoch = tonumber(epoch), ranges = {},
    }
    for first, last in slots:gmatch ' (%d+)%-?(%d*)%f[%s\0]' do
      first = math.tointeger(tonumber(first))
      one.ranges[#one.ranges + 1] = { first, math.tointeger(tonumber(last)) or first }
    end
    view[#view + 1] = one
  end
  return view
end

---@param id string
---@return RedisNode
function Cluster:node(id)
  for _, node in ipairs(self.nodes) do
    if node.id == id then return node end
  end
  error('there is no node ' .. id)
end

--- The slot of a key; a slot as it is.
---@param key string|integer
---@return integer
function Cluster:slot(key)
  if math.type(key) == 'integer' then return key end
  return (assert(self:living()[1]):ok('CLUSTER', 'KEYSLOT', key))
end

--- The master of a slot or key, as most of the living nodes say.
---@param slot integer|string
---@return RedisNode? nil when nobody has it
function Cluster:master_of(slot)
  slot = self:slot(slot)
  local votes, best = {}, nil
  for _, node in ipairs(self:living()) do
    for _, one in ipairs(self:view(node) or {}) do
      for _, range in ipairs(one.is_master and one.ranges or {}) do
        if slot >= range[1] and slot <= range[2] then
          votes[one.id] = (votes[one.id] or 0) + 1
          if not best or votes[one.id] > votes[best] then best = one.id end
        end
      end
    end
  end
  return best and self:node(best)
end

--- Living nodes of that role.
---@param role 'master'|'slave'
---@return RedisNode[]
function Cluster:of_role(role)
  local found = {}
  for _, node in ipairs(self:living()) do
    if node:info('replication', 'role') == role then found[#found + 1] = node end
  end
  return found
end

---@return RedisNode[]
function Cluster:masters() return self:of_role 'master' end

--- A living replica of a master, or nil.
---@param master RedisNode
---@return RedisNode?
function Cluster:replica_of(master)
  for _, node in ipairs(self:of_role 'slave') do
    if math.tointeger(tonumber(node:info('replication', 'master_port'))) == peer_port(master) then return node end
  end
end

--- Why the cluster is not whole, in words; nil when it is: each slot has a master, replicas follow, and all nodes
--- agree, about epochs too, and expect nobody to have failed.
---@return string?
function Cluster:trouble()
  local agreed
  for _, node in ipairs(self.nodes) do
    local state = node:command('CLUSTER', 'INFO')
    if not state then return node.address .. ' does not answer' end
    if not state:find 'cluster_state:ok' or not state:find('cluster_slots_ok:' .. SLOTS) then
      return node.address .. ' says ' .. state
    end
    local role = node:info('replication', 'role')
    if role == 'slave' and node:info('replication', 'master_link_status') ~= 'up' then
      return node.address .. ' has no link to its master'
    end
    -- Who was elected meanwhile, nobody has told.
    if role == 'master' and node.role == 'slave' then node.promoted_at = socket.gettime() end
    node.role = role
    local view, owners = assert(self:view(node)), { state:match 'cluster_current_epoch:(%d+)' }
    for _, one in ipairs(view) do
      if one.is_failing then return node.address .. ' expects ' .. one.id .. ' to have failed' end
      for _, range in ipairs(one.ranges) do
        owners[#owners + 1] = ('%05d %s %d'):format(range[1], one.id, one.epoch)
      end
    end
    if #view ~= #self.nodes then return ('%s knows %d nodes'):format(node.address, #view) end
    table.sort(owners)
    owners = table.concat(owners, ' ')
    agreed = agreed or owners
    if owners ~= agreed then return 'the nodes disagree about slots or epochs' end
  end
end

---@param seconds number?
function Cluster:wait_ok(seconds)
  local why
  if wait.poll(function()
    why = self:trouble()
    return not why
  end, seconds or 30) then
    return
  end
  error('the cluster is not whole: ' .. why, 2)
end

--- Nodes that were killed or stopped are there again, and the cluster is whole.
function Cluster:heal()
  for _, node in ipairs(self.nodes) do
    if node.is_stopped then node:cont() end
    if not node:is_running() then node:restart() end
  end
  self:wait_ok(60)
end

--- Promote a replica, and wait until it is a master. FORCE: without its master; TAKEOVER: without the others too.
---@param replica RedisNode
---@param how? 'FORCE'|'TAKEOVER'
---@return boolean ok, string? err what Redis says, or that it did not happen in time
function Cluster:failover(replica, how)
  local _, err = replica:command('CLUSTER', 'FAILOVER', how)
  if err then return false, err end
  -- A plain one is given up after five seconds.
  if self:wait_promoted(replica, 6) then return true end
  return false, 'no failover in time'
end

--- Wait until a replica is a master, by whatever cause.
---@param replica RedisNode
---@param seconds number?
---@return boolean
function Cluster:wait_promoted(replica, seconds)
  local is_done = wait.poll(function() return replica:info('replication', 'role') == 'master' end, seconds or 30)
  replica.promoted_at = is_done and socket.gettime() or replica.promoted_at
  return is_done == true
end

--- Wait until the others would elect this replica. Redis 7.0.15 counts votes of its last election for as long as
--- that may be repeated: who was promoted, demoted, and loses its master within that time makes itself a master
--- with the epoch of then, and nobody believes it until `CLUSTER BUMPEPOCH`.
---@param replica RedisNode
function Cluster:wait_votes_over(replica)
  local seconds = math.max(4 * self.node_timeout_ms, 4000) / 1000 + 0.5
  wait.poll(function() return socket.gettime() - (replica.promoted_at or 0) > seconds end, seconds)
end

-- ---- moving slots --------------------------------------------------------

--- Keys of an open slot go on, some at a time; gives how many.
---@param slot integer
---@param from RedisNode
---@param to RedisNode
---@param most integer?
---@return integer
local function move_keys(slot, from, to, most)
  local moved = 0
  while not most or moved < most do
    local keys = from:ok('CLUSTER', 'GETKEYSINSLOT', slot, math.min(20, most and most - moved or 20))
    if #keys == 0 then break end
    from:ok('MIGRATE', to.host, peer_port(to), '', 0, 5000, 'KEYS', table.unpack(keys))
    moved = moved + #keys
  end
  return moved
end

--- The slot belongs to `to`, which has all its keys. The new owner is told first, or clients would be sent to and fro.
local function give_slot(self, slot, to)
  to:ok('CLUSTER', 'SETSLOT', slot, 'NODE', to.id)
  for _, node in ipairs(self:masters()) do node:ok('CLUSTER', 'SETSLOT', slot, 'NODE', to.id) end
end

--- Move a slot as redis-cli does. With `halfway` so many keys are moved, and the slot stays open.
---@param slot integer|string
---@param from RedisNode its master
---@param to RedisNode another one
---@param halfway integer?
---@return integer keys that were moved
function Cluster:migrate_slot(slot, from, to, halfway)
  slot = self:slot(slot)
  to:ok('CLUSTER', 'SETSLOT', slot, 'IMPORTING', from.id)
  from:ok('CLUSTER', 'SETSLOT', slot, 'MIGRATING', to.id)
  local moved = move_keys(slot, from, to, halfway)
  if not halfway then give_slot(self, slot, to) end
  return moved
end

--- End what `migrate_slot` left open: the rest of its keys follow. There is no safe way back for them: from the
--- moment that the source has the slot for itself, it would take writes beside keys that are elsewhere.
---@param slot integer|string
---@param from RedisNode as migrate_slot had it
---@param to RedisNode
function Cluster:fix_slot(slot, from, to)
  local output, status = shell.run(('timeout %d examples/cluster/finish_slot.sh %d %s %s 2>&1 </dev/null'):format(
    wait.limit(60), self:slot(slot), from.address, to.address))
  assert(status == 0, output)
end

--- Take back what `migrate_slot` with `halfway` 0 has begun.
---@param slot integer|string
---@param from RedisNode as migrate_slot had it
---@param to RedisNode
function Cluster:cancel_slot(slot, from, to)
  slot = self:slot(slot)
  assert(to:ok('CLUSTER', 'COUNTKEYSINSLOT', slot) == 0, 'keys have moved')
  for _, node in ipairs { from, to } do node:ok('CLUSTER', 'SETSLOT', slot, 'STABLE') end
end

--- What redis-cli does about open slots; gives what it prints. No client may write meanwhile: it takes the master with
--- the most keys of a slot for its owner, and lets that take writes before it has the others.
---@return string output, integer status
function Cluster:fix()
  return shell.run(('timeout %d redis-cli --cluster fix %s 2>&1 </dev/null'):format(wait.limit(60),
    self:masters()[1].address))
end

--- Every key of every master, in order.
---@param pattern string? of Redis; default: all
---@return string[]
function Cluster:keys(pattern)
  local keys = {}
  for _, node in ipairs(self:masters()) do
    for _, key in ipairs(node:ok('KEYS', pattern or '*')) do keys[#keys + 1] = key end
  end
  table.sort(keys)
  return keys
end

--- A command at the master of a key.
---@param name string
---@param key string
---@param ... string|number
---@return any reply, string? err
function Cluster:command(name, key, ...)
  local node = self:master_of(key)
  if not node then return nil, 'no master has ' .. key end
  return node:command(name, key, ...)
end

--- End all processes and remove the directory; harmless more than once.
function Cluster:close()
  if not self.guard then return end
  for _, node in ipairs(self.nodes) do node:forget() end
  self.guard:close()
  self.guard = nil
end

-- ---- Sentinels -----------------------------------------------------------

-- After a failover a Sentinel may need a second until it connects to the new master. Below that, it takes it for
-- down, and promotes the other one again.
local DOWN_AFTER_MS = 1500

---@class SentinelGroup
---@field dir string
---@field name string of the master
---@field nodes RedisNode[] the first one is the master of the start
---@field watchers RedisNode[] the Sentinels
---@field url string for --store
local Group = {}
Group.__index = Group

---@class SentinelOptions
---@field count integer? of Sentinels; default: 3
---@field quorum integer? default: more than half
---@field name string? of the master; default: tide
---@field replicas integer? default: 1
---@field down_after_ms integer? default: 1500
---@field args (string|number)[]? more arguments for each redis-server
---@field sentinel_args string[]? more lines of each Sentinel's file

local function sentinel_file(self, options, port, dir)
  local quorum = options.quorum or self.count // 2 + 1
  local lines = {
    'port ' .. port, 'bind 127.0.0.1', 'dir ' .. dir, 'sentinel resolve-hostnames no',
    ('sentinel monitor %s 127.0.0.1 %d %d'):format(self.name, self.nodes[1].port, quorum),
    ('sentinel down-after-milliseconds %s %d'):format(self.name, options.down_after_ms or DOWN_AFTER_MS),
    ('sentinel failover-timeout %s 3000'):format(self.name),
    ('sentinel parallel-syncs %s 5'):format(self.name),
  }
  for _, line in ipairs(options.sentinel_args or {}) do lines[#lines + 1] = line end
  return table.concat(lines, '\n') .. '\n'
end

--- A master, its replicas, and Sentinels that know all of them.
---@param options SentinelOptions?
---@return SentinelGroup
function Cluster.sentinels(options)
  options = check_options(options or {}, {
    count = true, quorum = true, name = true, replicas = true, down_after_ms = true, args = true, sentinel_args = true,
  })
  local self = setmetatable({ nodes = {}, watchers = {}, dir = shell.make_dir 'tidemq-sentinel' }, Group)
  self.name, self.count, self.options = options.name or 'tide', options.count or 3, options
  self.guard = Node.guard(self.dir)
  for i = 1, 1 + (options.replicas or 1) do
    local dir, port = ('%s/node%d'):format(self.dir, i), Node.free_port()
    local words = words_of(dir, '127.0.0.1', port, options.args or {})
    table.insert(words, 1, dir .. '/redis.conf')
    self.nodes[i] = Node.new(dir, words, port)
    -- Sentinels rewrite this file: who was promoted comes back as a master.
    shell.write_file(dir .. '/redis.conf', i > 1 and ('replicaof 127.0.0.1 %d\n'):format(self.nodes[1].port) or '')
    self.nodes[i]:launch()
  end
  for _, node in ipairs(self.nodes) do node:expect_up() end
  local addresses = {}
  for i = 1, self.count do
    local dir, port = ('%s/sentinel%d'):format(self.dir, i), Node.free_port()
    local watcher = Node.new(dir, { dir .. '/sentinel.conf', '--sentinel' }, port)
    shell.write_file(dir .. '/sentinel.conf', sentinel_file(self, options, port, dir))
    watcher:launch()
    self.watchers[i], addresses[i] = watcher, watcher.address
  end
  for _, watcher in ipairs(self.watchers) do watcher:expect_up() end
  self.url = ('redis+sentinel://%s/%s'):format(table.concat(addresses, ','), self.name)
  self:wait_ok()
  return self
end

--- Where the master is, as the first Sentinel that answers says.
---@return string? address
function Group:master_address()
  for _, watcher in ipairs(self.watchers) do
    local reply = not watcher.is_stopped and watcher:is_running()
      and watcher:command('SENTINEL', 'get-master-addr-by-name', self.name)
    if reply then return reply[1] .. ':' .. reply[2] end
  end
end

---@return RedisNode?
function Group:master()
  local address = self:master_address()
  for _, node in ipairs(self.nodes) do
    if node.address == address then return node end
  end
end

local function count_of(watcher, name, field)
  local list = watcher:command('SENTINEL', 'master', name)
  for i = 1, list and #list - 1 or 0, 2 do
    if list[i] == field then return list[i + 1] end
  end
end

--- Why the group is not whole, in words.
---@return string?
function Group:trouble()
  local master = self:master()
  if not master then return 'no Sentinel knows a master' end
  if master:info('replication', 'role') ~= 'master' then return 'the master of the Sentinels is none' end
  for _, node in ipairs(self.nodes) do
    if node ~= master and (node:info('replication', 'master_port') ~= tostring(master.port)
        or node:info('replication', 'master_link_status') ~= 'up') then
      return node.address .. ' does not follow ' .. master.address
    end
  end
  for _, watcher in ipairs(self.watchers) do
    local address = watcher:command('SENTINEL', 'get-master-addr-by-name', self.name)
    if not address or address[2] ~= tostring(master.port) then return watcher.address .. ' names another master' end
    if count_of(watcher, self.name, 'flags') ~= 'master' then return watcher.address .. ' sees it down, or changed' end
    for field, n in pairs { ['num-slaves'] = #self.nodes - 1, ['num-other-sentinels'] = self.count - 1 } do
      if count_of(watcher, self.name, field) ~= tostring(n) then return watcher.address .. ' has another ' .. field end
    end
  end
end

Group.wait_ok = Cluster.wait_ok

--- What SENTINEL FAILOVER does; waits until another node is the master. The old one is told only ten seconds later.
---@param seconds number?
function Group:failover(seconds)
  local before, asked_at = self:master_address(), 0
  assert(wait.poll(function()
    if self:master_address() ~= before then return true end
    -- One that finds no replica that it has asked lately gives up, without a word to whom has asked.
    if socket.gettime() - asked_at > 3 then
      self.watchers[1]:command('SENTINEL', 'FAILOVER', self.name)
      asked_at = socket.gettime()
    end
    return false
  end, seconds or 30), 'the Sentinels have promoted nobody')
end

--- Wait until the Sentinels have another master than `before`, an address.
---@param before string
---@param seconds number?
function Group:wait_failover(before, seconds)
  assert(wait.poll(function() return (self:master_address() or before) ~= before end, seconds or 30),
    'the Sentinels have promoted nobody')
end

--- Nodes and Sentinels that were killed or stopped are there again, and all follow the master.
function Group:heal()
  for _, list in ipairs { self.nodes, self.watchers } do
    for _, node in ipairs(list) do
      if node.is_stopped then node:cont() end
      if not node:is_running() then node:restart() end
    end
  end
  self:wait_ok(60)
end

--- Those that are masters now: one, but for some seconds after a failover.
---@return RedisNode[]
Group.living, Group.of_role, Group.masters, Group.keys = Cluster.living, Cluster.of_role, Cluster.masters, Cluster.keys

function Group:close()
  if not self.guard then return end
  for _, list in ipairs { self.nodes, self.watchers } do
    for _, node in ipairs(list) do node:forget() end
  end
  self.guard:close()
  self.guard = nil
end

return Cluster
