-- A backlog far larger than the window: what it costs in the broker's memory, how
-- long a restart takes with it, and how fast it drains.
--
--   lua5.4 tests/bench/backlog.lua [messages] [bytes]      (1000000 and 128)
--
-- Fails when the broker needs more than 100 MB.
package.path = './tests/integration/?.lua;' .. package.path
local socket = require 'socket'
local Broker = require 'support.broker'

local count = tonumber(arg[1]) or 1000000
local size = tonumber(arg[2]) or 128
local payload = ('x'):rep(size)
local BATCH = 1000

local function seconds_of(what, work, n)
  local began = socket.gettime()
  work()
  local took = socket.gettime() - began
  print(('%-28s %8.2f s%s'):format(what, took, n and (' %10.0f/s'):format(n / took) or ''))
  return took
end

local function megabytes(broker)
  return broker:memory() / 1e6
end

local function stats(c)
  c:send 'STATS jobs\r\n'
  return c:expect_json()
end

local broker = Broker.start { args = { '--fsync', 'no' } }
local c = broker:connect()
c:ok 'DECLARE queue jobs'
print(('%d messages of %d bytes; the broker alone has %.1f MB'):format(count, size, megabytes(broker)))

local lines = ('PUB - jobs quiet %d\r\n%s\r\n'):format(size, payload):rep(BATCH) .. 'PING\r\n'
local peak = 0
seconds_of('published', function()
  for _ = 1, count, BATCH do
    c:send(lines)
    c:drain_until('^OK$', 60)
    peak = math.max(peak, megabytes(broker))
  end
end, count)
assert(stats(c).ready == count, 'not all are there')
print(('resident, at most %15.1f MB'):format(peak))

c:close()
broker:stop(60)
local restart = seconds_of('restarted, Redis with it', function()
  broker:restart()
  c = broker:connect()
  assert(stats(c).ready == count, 'not all are there after the restart')
end)
broker:kill9()
local alone = seconds_of('restarted after kill -9', function()
  broker:restart()
  c = broker:connect()
  assert(stats(c).ready == count, 'not all are there after the crash')
end)
print(('resident after it %15.1f MB'):format(megabytes(broker)))

seconds_of('drained', function()
  local left = count
  while left > 0 do
    c:send 'GET jobs max=1000 wait=5s\r\n'
    local n = tonumber((c:expect('^OK (%d+)$', 60)))
    assert(n > 0, 'nothing comes any more')
    local first, last
    for _ = 1, n do
      local line = c:read_line(60)
      local tag, len = line:match '^MSG %- (%d+) .- (%d+)$'
      c:expect_payload(len)
      first, last = first or tag, tag
    end
    c:ok(('ACK %s-%s'):format(first, last))
    left = left - n
    peak = math.max(peak, megabytes(broker))
  end
end, count)
broker:destroy()
assert(peak < 100, ('the broker took %.1f MB'):format(peak))
print(('resident, at most %15.1f MB; restarts %.2f s and %.2f s'):format(peak, restart, alone))
