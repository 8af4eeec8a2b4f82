--- scrape.lua BUILD OUTPUT: what a scrape of /metrics costs those who work meanwhile.
---
--- QUEUES (100,000) queues in memory; a client that waits for each answer to PING; and curl, which scrapes as
--- fast as it can. Turns are those of the event loop, from the histogram of STATS.
package.path = './tests/integration/?.lua;' .. package.path
local json = require 'dkjson'
local socket = require 'socket'
local sh = require 'support.shell'.line
local wait = require 'support.wait'

local build, output = arg[1], arg[2]
local QUEUES = tonumber(os.getenv 'QUEUES') or 100000
local PORT, HTTP = 7481, 7482

local dir = sh 'mktemp -d ${TMPDIR:-/tmp}/tidemq-scrape.XXXXXX':gsub('%s+$', '')
local pid = sh(('exec setsid %s/tidemq serve --listen 127.0.0.1:%d --http 127.0.0.1:%d --store none >%s/out 2>%s/log '
  .. '</dev/null & echo $!'):format(build, PORT, HTTP, dir, dir)):match '%d+'

local c = wait.poll(function() return socket.connect('127.0.0.1', PORT) end)
  or error('the broker did not start: see ' .. dir .. '/log')
c:setoption('tcp-nodelay', true)

local function ask(line)
  assert(c:send(line .. '\r\n'))
  local answer = assert(c:receive '*l')
  local len = answer:match '^DATA (%d+)'
  if not len then return assert(answer:find '^OK' and answer, answer) end
  local document = assert(c:receive(tonumber(len)))
  c:receive '*l'
  return json.decode(document)
end

for first = 1, QUEUES, 1000 do
  local lines = {}
  for i = first, math.min(first + 999, QUEUES) do
    lines[#lines + 1] = ('DECLARE queue orders.region%d.customer%d durable=0 quiet\r\n'):format(i % 100, i)
  end
  assert(c:send(table.concat(lines)))
  ask 'PING'
end

local function at(sorted, share) return sorted[math.max(1, math.ceil(share * #sorted))] * 1e6 end

local function steps(loop)
  local by_bound = {}
  for _, step in ipairs(loop.steps) do by_bound[step.to_us or math.huge] = step.count end
  return by_bound
end

-- The upper bound of the step that the longest of the turns between is in.
local function longest(before, after)
  local had, bound = steps(before), 0
  for to, count in pairs(steps(after)) do
    if count > (had[to] or 0) and to > bound then bound = to end
  end
  return bound
end

local function cpu() return ask('STATS').process.cpu_ms end

local rows = {}
local function measure(name, command)
  local before, began, used = ask 'STATS', socket.gettime(), cpu()
  local pipe = command and io.popen(command .. ' & echo $!; wait; echo >' .. dir .. '/done')
  local trips = {}
  os.remove(dir .. '/done')
  repeat
    local since = socket.gettime()
    ask 'PING'
    trips[#trips + 1] = socket.gettime() - since
    local is_over = socket.gettime() - began > 5
    if command and #trips % 20 == 0 then
      local file = io.open(dir .. '/done')
      is_over = file ~= nil
      if file then file:close() end
    elseif command then
      is_over = false
    end
  until is_over
  local seconds = socket.gettime() - began
  if pipe then pipe:close() end
  local after = ask 'STATS'
  table.sort(trips)
  local size = command and tonumber(sh(('stat -c %%s %s/scrape 2>/dev/null'):format(dir))) or 0
  rows[#rows + 1] = ('| %s | %.1f | %.2f | %.0f | %.0f | %.0f | %.0f | %.1f |'):format(name, size / 1e6, seconds,
    (cpu() - used), at(trips, 0.5), at(trips, 0.99), at(trips, 1), longest(before.loop, after.loop) / 1000)
  print(rows[#rows])
end

local curl = ('curl -s -o %s/scrape "http://127.0.0.1:%d/metrics%%s"'):format(dir, HTTP)
local head = ('# A scrape of %d queues\n\n| scrape | MB | s | CPU ms | PING p50 µs | p99 | longest | '
  .. 'longest turn, at most ms |\n| --- | --- | --- | --- | --- | --- | --- | --- |'):format(QUEUES)
print(head)
measure('none', nil)
measure('per queue', curl:format '')
measure('per vhost', curl:format '?per=vhost')
os.execute('kill ' .. pid)
os.execute('rm -rf ' .. dir)
local file = assert(io.open(output, 'w'))
file:write(head, '\n', table.concat(rows, '\n'), '\n')
file:close()
