--- scale.lua BUILD OUTPUT: how the cost of a message grows with the size of
--- things: payload, queues, bindings, connections, backlog, shards.
---
--- The load is that of `make bench` (one producer, one consumer, windows of
--- 1,000); each figure is the median of three runs. FULL=1 goes to the largest
--- sizes (100,000 queues and bindings, a backlog of 10,000,000).
package.path = './tests/integration/?.lua;' .. package.path
local socket = require 'socket'
local shell = require 'support.shell'
local wait = require 'support.wait'

local sh = shell.run

local build, output = arg[1], arg[2]
local is_full = os.getenv 'FULL' == '1'
local ROUNDS = 3
local PORT = 7479
local URL = ('--url tide://127.0.0.1:%d/'):format(PORT)

local dir, pid

local function connect()
  local c = socket.connect('127.0.0.1', PORT)
  if c then c:setoption('tcp-nodelay', true) end
  return c
end

--- Give the seconds until it serves.
local function run()
  local before = socket.gettime()
  pid = sh(('exec setsid %s/tidemq serve --http none --listen 127.0.0.1:%d --data %s --max-connections 100000 '
    .. '>%s.out 2>%s.log </dev/null & echo $!'):format(build, PORT, dir, dir, dir)):match '%d+'
  local c = wait.poll(connect, 60) or error('the broker did not start: see ' .. dir .. '.log')
  c:close()
  return socket.gettime() - before
end

local function start()
  dir = sh 'mktemp -d ${TMPDIR:-/tmp}/tidemq-scale.XXXXXX':gsub('%s+$', '')
  return run()
end

local function signal(name)
  os.execute(('kill -%s %s'):format(name, pid))
  assert(wait.poll(function() return not shell.is_running(pid) end, 60), 'the broker does not stop')
end

local function stop()
  signal 'TERM'
  os.execute(('rm -rf %s %s.out %s.log'):format(dir, dir, dir))
end

local function rss_mb()
  return tonumber((sh('ps -o rss= -p ' .. pid))) / 1024
end

--- Send many requests on one connection and wait for all of their OKs.
local function requests(count, line_of)
  local c = assert(connect())
  c:settimeout(120)
  for first = 1, count, 1000 do
    local lines = {}
    local last = math.min(first + 999, count)
    for i = first, last do lines[#lines + 1] = line_of(i) .. '\r\n' end
    assert(c:send(table.concat(lines)))
    for _ = first, last do
      local reply = assert(c:receive '*l')
      assert(reply:find '^OK', reply)
    end
  end
  c:close()
end

local function bench(options)
  local values = {}
  for i = 1, ROUNDS do
    local text, status = sh(('%s/tidemq bench %s --json %s'):format(build, URL, options))
    assert(status == 0, text)
    values[i] = tonumber(text:match '"delivered_per_second":(%d+)')
  end
  table.sort(values)
  return values[(ROUNDS + 1) // 2]
end

local lines = {}
local function line(format, ...)
  lines[#lines + 1] = format:format(...)
  print(lines[#lines])
end
local function thousands(n)
  return (('%d'):format(math.floor(n + 0.5)):reverse():gsub('(%d%d%d)', '%1,'):reverse():gsub('^,', ''))
end
local function head(title, ...)
  line ''
  line('**%s**', title)
  line ''
  line('| %s |', table.concat({ ... }, ' | '))
  line('|%s', (' --- |'):rep(select('#', ...)))
end

head('payload', 'bytes', 'messages a second', 'MB a second')
start()
for _, size in ipairs { 32, 128, 1024, 16384, 262144 } do
  local count = math.max(2000, math.min(200000, 400000000 // size))
  local rate = bench(('--size %d --count %d'):format(size, count))
  line('| %s | %s | %.0f |', thousands(size), thousands(rate), rate * size / 1e6)
end
stop()

head('queues that are there', 'queues', 'messages a second through one of them', 'broker MB', 'start, s')
for _, count in ipairs { 1, 100, 10000, is_full and 100000 or nil } do
  start()
  requests(count, function(i) return 'DECLARE queue q' .. i end)
  local rate = bench ''
  signal 'TERM'
  local seconds = run()
  line('| %s | %s | %.1f | %.2f |', thousands(count), thousands(rate), rss_mb(), seconds)
  stop()
end

head('bindings of a topic exchange', 'bindings',
  'publishes a second, one key', 'publishes a second, new keys', 'broker MB')
for _, count in ipairs { 1, 100, 10000, is_full and 100000 or nil } do
  start()
  requests(1, function() return 'DECLARE exchange x topic' end)
  requests(1, function() return 'DECLARE queue q durable=0' end)
  requests(count, function(i) return ('BIND q x a%d.*.c'):format(i) end)
  local function publish(key_of)
    local n, before = 100000, socket.gettime()
    requests(n, function(i) return ('PUB x %s 2\r\nhi'):format(key_of(i)) end)
    requests(1, function() return 'PURGE q' end)
    return n / (socket.gettime() - before)
  end
  local one = publish(function() return 'a1.b.c' end)
  local new = publish(function(i) return ('a1.b%d.c'):format(i) end)
  line('| %s | %s | %s | %.1f |', thousands(count), thousands(one), thousands(new), rss_mb())
  stop()
end

head('idle connections', 'connections', 'messages a second', 'broker MB')
for _, count in ipairs { 0, 100, 1000, 10000 } do
  start()
  local held = {}
  for i = 1, count do held[i] = assert(connect()) end
  local rate = bench ''
  line('| %s | %s | %.1f |', thousands(count), thousands(rate), rss_mb())
  for _, c in ipairs(held) do c:close() end
  stop()
end

head('backlog', 'messages', 'fill, a second', 'drain, a second', 'broker MB', 'start, s')
for _, count in ipairs { 1000, 100000, 1000000, is_full and 10000000 or nil } do
  start()
  local text = sh(('%s/tidemq bench %s --json --fill --count %d'):format(build, URL, count))
  local fill = tonumber(text:match '"published_per_second":(%d+)')
  local mb = rss_mb()
  signal 'TERM'
  local seconds = run()
  text = sh(('%s/tidemq bench %s --json --drain --count %d'):format(build, URL, count))
  line('| %s | %s | %s | %.1f | %.2f |', thousands(count), thousands(fill),
    thousands(tonumber(text:match '"delivered_per_second":(%d+)')), mb, seconds)
  stop()
end

head('shards of the queue', 'shards', 'messages a second')
for _, count in ipairs { 1, 4, 16, 64 } do
  start()
  line('| %d | %s |', count, thousands(bench(('shards=%d sharding=round_robin'):format(count))))
  stop()
end

local file = assert(io.open(output, 'w'))
file:write(table.concat(lines, '\n'), '\n')
file:close()
