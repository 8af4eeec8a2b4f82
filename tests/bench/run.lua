--- run.lua BUILD OUTPUT [SERVER...]: the same work for each server, in turn.
---
--- A scenario is run three times, the servers taking turns; the medians are written
--- as a table in Markdown to OUTPUT. Servers that are not installed are left out.
package.path = './tests/bench/?.lua;' .. package.path
local servers = require 'servers'
local median, thousands = servers.median, servers.thousands

local build, output = arg[1], arg[2]
local ROUNDS = tonumber(os.getenv 'ROUNDS' or 3)
local present, dir = servers.present(build, { table.unpack(arg, 3) })

--- What is measured: arguments of the load, and which figure of it counts.
local scenarios = {
  { name = 'stream', title = 'one producer, one consumer, 128 bytes', args = '', figure = 'per_second' },
  { name = 'kilobyte', title = 'the same, 1 KiB', args = '--size 1024', figure = 'per_second' },
  { name = 'four', title = '4 producers, 4 consumers', args = '--producers 4 --consumers 4', figure = 'per_second' },
  { name = 'single', title = 'one message at a time (window 1, prefetch 1)',
    args = '--window 1 --prefetch 1', count = 10000, figure = 'per_second' },
  { name = 'fill', title = 'fill 200,000, no consumer', args = '--fill', figure = 'per_second' },
  { name = 'drain', title = 'drain them, no producer', args = '--drain', figure = 'per_second' },
  { name = 'latency', title = '2,000 messages a second', args = '--rate 2000', count = 10000 },
  -- Of those that name it.
  { name = 'alone', title = 'one publish after the other, no consumer', args = '--fill --window 1', count = 5000,
    is_extra = true },
}

local function run(server, scenario, round)
  local count = scenario.count or (server.slow and 50000 or 200000)
  local variant = server.variant and ' --variant ' .. server.variant or ''
  local result = server:load(scenario.name, count, scenario.args .. variant)
  if not result then return end
  io.stderr:write(('%-16s %-9s %d: %8d a second, confirm %s, deliver %s us\n'):format(server.name, scenario.name,
    round, result.per_second, result.confirm50, result.deliver50))
  table.insert(server.results[scenario.name], result)
end

for round = 1, ROUNDS do
  for _, server in ipairs(present) do
    if server:run() then
      for _, scenario in ipairs(scenarios) do
        if server.only and server.only[scenario.name] or not server.only and not scenario.is_extra then
          server.results[scenario.name] = server.results[scenario.name] or {}
          run(server, scenario, round)
        end
      end
    end
    server:remove()
  end
end

-- ---- the table ---------------------------------------------------------------

local line, write = servers.lines()

line('%s', servers.machine(ROUNDS))
line ''
servers.table(present, line, 'settings')

local ours = present[1]
for _, server in ipairs(present) do
  if server.name == 'tidemq' then ours = server end
end

local function has_results(scenario)
  for _, server in ipairs(present) do
    if server.results[scenario.name] then return true end
  end
  return false
end

local function write_scenario(scenario)
  local base = median(ours.results[scenario.name], scenario.figure)
  line ''
  line('**%s**', scenario.title)
  line ''
  if scenario.figure then
    line('| server | messages a second | tidemq is | server CPU, µs per message |')
    line('| --- | --- | --- | --- |')
    for _, server in ipairs(present) do
      local r = server.results[scenario.name]
      if r and #r > 0 then
        local value = median(r, scenario.figure)
        line('| %s | %s | %.1f × | %.2f |', server.name, thousands(value), base and base / value or 0, median(r, 'cpu'))
      end
    end
  else
    line('| server | confirm p50 / p99, µs | deliver p50 / p99, µs | server CPU, µs per message |')
    line('| --- | --- | --- | --- |')
    for _, server in ipairs(present) do
      local r = server.results[scenario.name]
      if r and #r > 0 then
        line('| %s | %.0f / %.0f | %.0f / %.0f | %.1f |', server.name, median(r, 'confirm50'), median(r, 'confirm99'),
          median(r, 'deliver50'), median(r, 'deliver99'), median(r, 'cpu'))
      end
    end
  end
end

for _, scenario in ipairs(scenarios) do
  if has_results(scenario) then write_scenario(scenario) end
end

os.execute('rm -rf ' .. dir)
write(output)
