--- What others see while one of three masters of a Redis Cluster is stopped and its replica takes over: the confirms
--- of two queues of the other masters, each with a producer and a consumer at a fixed rate, and a producer that
--- waits for the stopped one. A phase before, one during, one after, in turn.
---
---   lua5.4 tests/bench/outage.lua [OUT]      ROUNDS=5 RATE=500 SECONDS=12
package.path = 'tests/integration/?.lua;' .. package.path
local Broker = require 'support.broker'
local Cluster = require 'support.cluster'
local shell = require 'support.shell'

local ROUNDS = tonumber(os.getenv 'ROUNDS') or 5
local RATE = tonumber(os.getenv 'RATE') or 500
-- Longer than a failover takes: the node-timeout, and up to three seconds more.
local SECONDS = tonumber(os.getenv 'SECONDS') or 12
local PHASES = { 'before', 'during', 'after' }

local function key(queue) return ('tide:{//%s#0}:msg'):format(queue) end

--- The name of a queue whose messages this master has, as `tidemq bench` makes it of a prefix.
local function prefix_at(cluster, node)
  for i = 1, math.huge do
    local prefix = 'load' .. i
    if cluster:master_of(key(prefix .. '-1')) == node then return prefix end
  end
end

--- The two loads together; gives what each of them says of its confirms and deliveries, in microseconds.
local function phase(broker, prefixes)
  local pipes, found = {}, {}
  for i, prefix in ipairs(prefixes) do
    pipes[i] = io.popen(('%s bench --json --queue %s --rate %d --count %d --size 128 --url tide://%s/'):format(
      Broker.binary(), prefix, RATE, RATE * SECONDS, broker.address))
  end
  for i, pipe in ipairs(pipes) do
    local text = pipe:read 'a'
    pipe:close()
    local p50, p99 = text:match '"confirm_us":{"p50":([%d.]+).-"p99":([%d.]+)'
    assert(p50 and text:find '"missing":0,"duplicates":0,"disordered":0', text)
    found[i] = { p50 = tonumber(p50), p99 = tonumber(p99) }
  end
  return found
end

local cluster = Cluster.start { node_timeout_ms = 5000 }
local broker = Broker.start { args = { '--store', cluster.url } }
local found = { before = {}, during = {}, after = {} }
for _ = 1, ROUNDS do
  -- Declarations need the master of {tide}.
  local home, victim, prefixes = cluster:master_of '{tide}:holder', nil, {}
  for _, node in ipairs(cluster:masters()) do
    if node ~= home and not victim then
      victim = node
    else
      prefixes[#prefixes + 1] = prefix_at(cluster, node)
    end
  end
  local replica, waiting = cluster:replica_of(victim), broker:connect()
  cluster:wait_votes_over(replica)
  local queue = prefix_at(cluster, victim)
  waiting:ok('DECLARE queue ' .. queue .. '-1')
  for _, name in ipairs(PHASES) do
    if name == 'during' then
      victim:stop()
      waiting:send(('PUB - %s-1 128\r\n%s\r\n'):format(queue, ('x'):rep(128)):rep(1000))
    end
    for _, row in ipairs(phase(broker, prefixes)) do table.insert(found[name], row) end
    if name == 'during' then
      assert(cluster:wait_promoted(replica))
      for _ = 1, 1000 do assert(waiting:expect('^OK %x+ 1$', 60)) end
      cluster:heal()
    end
  end
  waiting:ok('DELETE queue ' .. queue .. '-1')
  waiting:close()
end
broker:kill9()
cluster:close()

local function median(phase_name, of)
  local values = {}
  for i, row in ipairs(found[phase_name]) do values[i] = of(row, i) end
  table.sort(values)
  return values[(#values + 1) // 2]
end

local lines = { '| | confirm p50, ms | p99, ms | p99, times that of before |', '| --- | --- | --- | --- |' }
for _, name in ipairs(PHASES) do
  local p50 = median(name, function(row) return row.p50 / 1000 end)
  local p99 = median(name, function(row) return row.p99 / 1000 end)
  local times = median(name, function(row, i) return row.p99 / found.before[i].p99 end)
  lines[#lines + 1] = ('| %s | %.2f | %.2f | %.2f |'):format(name, p50, p99, times)
end
local text = table.concat(lines, '\n') .. '\n'
io.write(text)
if arg[1] then shell.write_file(arg[1], text) end
