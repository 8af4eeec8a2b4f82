--- What a message costs each Redis of a cluster: the processor time of one master, and of three, for the same
--- work: a queue of six shards is filled. Time of the processor, so that a busy machine changes little.
---
---   lua5.4 tests/bench/cluster.lua [OUT]      COUNT=300000 ROUNDS=3
package.path = 'tests/integration/?.lua;' .. package.path
local Broker = require 'support.broker'
local Cluster = require 'support.cluster'
local shell = require 'support.shell'

local COUNT = tonumber(os.getenv 'COUNT') or 300000
local ROUNDS = tonumber(os.getenv 'ROUNDS') or 3
local TICK_US = 10000

--- Of a process so far, in microseconds: user and system.
local function cpu_us(pid)
  local fields = shell.read_file(('/proc/%d/stat'):format(pid)):match '%) (.*)$'
  local words = {}
  for word in fields:gmatch '%S+' do words[#words + 1] = word end
  return (words[12] + words[13]) * TICK_US
end

--- The sum of all masters, and the busiest one, each for a message.
local function fill(masters)
  local cluster = Cluster.start { masters = masters, replicas = 0 }
  local broker = Broker.start { args = { '--store', cluster.url } }
  local before, sum, most = {}, 0, 0
  for i, node in ipairs(cluster.nodes) do before[i] = cpu_us(node:pid()) end
  local broker_before = cpu_us(broker:pid())
  local options = ('--fill --count %d --size 128 --producers 4 --url tide://%s/'):format(COUNT, broker.address)
  local command = ('%s bench %s shards=6 sharding=round_robin >/dev/null'):format(Broker.binary(), options)
  assert(os.execute(command), 'the load failed')
  for i, node in ipairs(cluster.nodes) do
    local us = (cpu_us(node:pid()) - before[i]) / COUNT
    sum, most = sum + us, math.max(most, us)
  end
  local own = (cpu_us(broker:pid()) - broker_before) / COUNT
  broker:kill9()
  cluster:close()
  return { sum = sum, most = most, broker = own }
end

local function median(values)
  table.sort(values)
  return values[(#values + 1) // 2]
end

local found = {}
for _ = 1, ROUNDS do
  for _, masters in ipairs { 1, 3 } do
    local row = fill(masters)
    found[masters] = found[masters] or { sum = {}, most = {}, broker = {} }
    for name, value in pairs(row) do table.insert(found[masters][name], value) end
  end
end

local lines = { '| masters | all Redis, us a message | the busiest Redis | the broker |', '| --- | --- | --- | --- |' }
for _, masters in ipairs { 1, 3 } do
  local f = found[masters]
  lines[#lines + 1] = ('| %d | %.2f | %.2f | %.2f |'):format(masters, median(f.sum), median(f.most), median(f.broker))
end
local text = table.concat(lines, '\n') .. '\n'
io.write(text)
if arg[1] then shell.write_file(arg[1], text) end
