--- topics.lua BUILD OUTPUT [SERVER...]: topics, and what other servers have like them.
---
--- append, tail, catch-up and receipt for each server in turn, and what a message takes
--- in the store. The medians are written as tables in Markdown to OUTPUT. Servers that are
--- not installed, and those without such a thing, are left out.
---
--- CATCH_UP=N messages are stored before the catch-up begins (500,000; FULL=1: 10,000,000).
--- COUNT=N is for trying: so many messages in each of the other loads. ROUNDS=3.
package.path = './tests/bench/?.lua;' .. package.path
local servers = require 'servers'
local sh = require 'support.shell'.run
local median, thousands = servers.median, servers.thousands

local build, output = arg[1], arg[2]
local ROUNDS = tonumber(os.getenv 'ROUNDS' or 3)
local COUNT = tonumber(os.getenv 'COUNT')
local CATCH_UP = tonumber(os.getenv 'CATCH_UP' or os.getenv 'FULL' == '1' and 10000000 or 500000)
local SIZE = 128

local all, dir = servers.present(build, { table.unpack(arg, 3) })
local present = {}
for _, server in ipairs(all) do
  if server.topic then present[#present + 1] = server end
end

--- Loads that need nothing but a running server. The first finds it empty.
local scenarios = {
  { name = 'receipt', args = '--rate 2000 --groups 1', count = 10000, weigh = true },
  { name = 'latency', args = '--rate 2000', count = 10000 },
  { name = 'append', args = '--topic --fill', count = 500000 },
  { name = 'window', args = '--topic --fill --window 10000', count = 500000 },
  { name = 'tail', args = '--groups 1', count = 200000 },
  { name = 'tails', args = '--groups 10', count = 200000 },
}

local function note(server, name, round, result)
  io.stderr:write(('%-16s %-9s %d: %8d a second, confirm %s, deliver %s us, %s bytes\n'):format(server.name, name,
    round, result.per_second, result.confirm50, result.deliver50, result.memory or '-'))
  server.results[name] = server.results[name] or {}
  table.insert(server.results[name], result)
end

--- Bytes that the store takes: in memory, where Redis says so, and on disk.
local function weigh(server)
  local memory = server.info and sh(server:command(server.info)):match 'used_memory:(%d+)'
  return tonumber(memory), tonumber((sh('du -s --block-size=1 ' .. server.dir):match '^%d+'))
end

--- The same when it no longer changes: what is written behind has been written. Some change
--- always; they are weighed after five seconds.
local function weigh_at_rest(server)
  local memory, disk = weigh(server)
  for _ = 1, 25 do
    os.execute 'sleep 0.2'
    local memory_before, disk_before = memory, disk
    memory, disk = weigh(server)
    if memory == memory_before and disk == disk_before then break end
  end
  return memory, disk
end

--- A load, and what the store has grown by for each message of it.
local function load_and_weigh(server, name, count, args)
  local memory, disk = weigh(server)
  local result = server:load(name, count, args)
  if not result then return nil end
  local memory_then, disk_then = weigh_at_rest(server)
  result.memory = memory and memory_then and (memory_then - memory) / count
  result.disk = (disk_then - disk) / count
  return result
end

local function run(server, scenario, round)
  local count = COUNT or scenario.count
  local result
  if scenario.weigh then
    result = load_and_weigh(server, scenario.name, count, scenario.args)
  else
    result = server:load(scenario.name, count, scenario.args)
  end
  if result then note(server, scenario.name, round, result) end
end

--- Who reads comes to a server that has started with the messages in its store.
local function catch_up(server, round)
  local stored = load_and_weigh(server, 'store', CATCH_UP, '--topic --fill --window 10000')
  if not stored then return end
  note(server, 'store', round, stored)
  for _, who in ipairs { { 'catch-up', '--readers 1' }, { 'group-up', '--groups 1' } } do
    server:halt()
    if not server:run() then return end
    local result = server:load(who[1], CATCH_UP, '--drain ' .. who[2])
    if result then note(server, who[1], round, result) end
  end
end

for round = 1, ROUNDS do
  for _, server in ipairs(present) do
    if server:run() then
      for _, scenario in ipairs(scenarios) do
        if not server.only or server.only[scenario.name] then run(server, scenario, round) end
      end
    end
    server:remove()
    if not server.only then
      if server:run() then catch_up(server, round) end
      server:remove()
    end
  end
end

-- ---- the tables --------------------------------------------------------------

local line, write = servers.lines()

local ours
for _, server in ipairs(present) do
  if server.name == 'tidemq' then ours = server end
end

--- A table with a row for each server that has figures of that scenario.
local function table_of(title, head, scenario, row)
  line ''
  line('**%s**', title)
  line ''
  line('| server | %s |', table.concat(head, ' | '))
  line('| --- |%s', (' --- |'):rep(#head))
  for _, server in ipairs(present) do
    if server.results[scenario] then line('| %s | %s |', server.name, table.concat({ row(server) }, ' | ')) end
  end
end

local function figure(server, scenario, key, format)
  local value = median(server.results[scenario], key)
  return value and (format or '%.2f'):format(value) or '–'
end

local function rate(server, scenario)
  local value = median(server.results[scenario], 'per_second')
  return value and thousands(value) or '–'
end

--- How many times as fast as this server tidemq is.
local function times(server, scenario)
  local base = ours and median(ours.results[scenario], 'per_second')
  local value = median(server.results[scenario], 'per_second')
  return base and value and ('%.1f ×'):format(base / value) or '–'
end

local function latency(server, scenario, key)
  local p50, p99 = figure(server, scenario, key .. '50', '%.0f'), figure(server, scenario, key .. '99', '%.0f')
  return ('%s / %s'):format(p50, p99)
end

line('%s', servers.machine(ROUNDS))
line ''
servers.table(present, line, 'topic')

table_of(('append: one producer, no consumer, %d bytes'):format(SIZE),
  { '1,000 unconfirmed, a second', 'tidemq is', '10,000 unconfirmed, a second', 'tidemq is',
    'server CPU, µs per message' }, 'append', function(s)
    return rate(s, 'append'), times(s, 'append'), rate(s, 'window'), times(s, 'window'), figure(s, 'append', 'cpu')
  end)

table_of('tail: each group receives and acknowledges every message',
  { '1 group, messages a second', 'tidemq is', '10 groups, messages a second', 'tidemq is', '10 groups cost',
    'server CPU, µs per message published: 1 / 10 groups' }, 'tail', function(s)
    local one, ten = median(s.results.tail, 'per_second'), median(s.results.tails, 'per_second')
    return rate(s, 'tail'), times(s, 'tail'), rate(s, 'tails'), times(s, 'tails'),
      one and ten and ('%.1f ×'):format(one / ten) or '–',
      ('%s / %s'):format(figure(s, 'tail', 'cpu'), figure(s, 'tails', 'cpu'))
  end)

table_of(('catch-up: %s messages from the first one on, after a restart'):format(thousands(CATCH_UP)),
  { 'a reader without acks, messages a second', 'tidemq is', 'a group, messages a second', 'tidemq is',
    'server CPU, µs per message: reader / group' }, 'catch-up', function(s)
    return rate(s, 'catch-up'), times(s, 'catch-up'), rate(s, 'group-up'), times(s, 'group-up'),
      ('%s / %s'):format(figure(s, 'catch-up', 'cpu'), figure(s, 'group-up', 'cpu'))
  end)

table_of('receipt: 2,000 messages a second, one consumer',
  { 'queue, p50 / p99, µs', 'topic, p50 / p99, µs', 'confirm by the topic, p50 / p99, µs' }, 'receipt', function(s)
    return latency(s, 'latency', 'deliver'), latency(s, 'receipt', 'deliver'), latency(s, 'receipt', 'confirm')
  end)

table_of(('what a message of %d bytes takes in the store'):format(SIZE),
  { 'memory, bytes', 'of the payload', 'memory when stored at 2,000 a second, bytes', 'disk, bytes' }, 'store',
  function(s)
    local memory = median(s.results.store, 'memory')
    return figure(s, 'store', 'memory', '%.0f'), memory and ('%.2f ×'):format(memory / SIZE) or '–',
      figure(s, 'receipt', 'memory', '%.0f'), figure(s, 'store', 'disk', '%.0f')
  end)

os.execute('rm -rf ' .. dir)
write(output)
