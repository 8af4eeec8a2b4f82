--- groups.lua [ROUNDS]: what a group that is blocked costs the others. A queue with
--- order-by=h:g serves 100,000 groups of one message; then the same with one more group,
--- of which one message is at work and 100,000 wait behind it. Those are passed by once
--- before; the figures are of the rounds after that. TIDEMQ is the broker; run it in the
--- root of the repository.
package.path = './tests/integration/?.lua;' .. package.path
local socket = require 'socket'
local Broker = require 'support.broker'
local shell = require 'support.shell'

local ROUNDS = tonumber(arg[1] or 5)
local GROUPS, BLOCKED, SIZE = 100000, 100000, 128

local function fill(c, n, group)
  local payload = ('x'):rep(SIZE)
  for from = 1, n, 1000 do
    local lines = {}
    for i = from, from + 999 do
      lines[#lines + 1] = ('PUB - jobs h:g=%s quiet %d\r\n%s\r\n'):format(group(i), SIZE, payload)
    end
    lines[#lines + 1] = 'PING\r\n'
    c:send(table.concat(lines))
    c:expect_line 'OK'
  end
end

--- Seconds of processor time, all threads.
local function cpu(broker)
  local stat = shell.read_file(('/proc/%d/stat'):format(broker:pid())):match '%) (.*)'
  local user, system = stat:match(('%S+ '):rep(11) .. '(%d+) (%d+)')
  return (user + system) / 100
end

--- Messages a second.
local function drain(d, n)
  local before, left = socket.gettime(), n
  while left > 0 do
    d:send 'GET jobs max=1000 wait=60s\r\n'
    local count = tonumber((d:expect('^OK (%d+)$', 60)))
    assert(count > 0, 'nothing comes')
    local first, last
    for _ = 1, count do
      local tag, size = d:read_line(60):match '^MSG %- (%d+) .- (%d+)$'
      d:expect_payload(size)
      first, last = first or tag, tag
    end
    d:ok(('ACK %s-%s'):format(first, last))
    left = left - count
  end
  return n / (socket.gettime() - before)
end

local function one_each(i) return 'g' .. i end

local function hot() return 'hot' end

local function measure(how, is_blocked)
  local broker = Broker.start { args = { '--fsync', 'no' } }
  local c, d, holder = broker:connect(), broker:connect(), broker:connect()
  c:ok('DECLARE queue jobs order-by=h:g ack-timeout=1h ' .. how)
  if is_blocked then
    fill(c, 1000, hot)
    assert(#holder:get 'jobs' == 1)
    fill(c, BLOCKED - 1000, hot)
  end
  fill(c, GROUPS, one_each)
  drain(d, GROUPS)
  local rates, used = {}, 0
  for i = 1, ROUNDS do
    fill(c, GROUPS, one_each)
    local before = cpu(broker)
    rates[i] = drain(d, GROUPS)
    used = used + cpu(broker) - before
  end
  table.sort(rates)
  local parked = c:stats('jobs').order.parked
  assert(parked == (is_blocked and BLOCKED - 1 or 0), parked)
  print(('| %s | %s | %.0f | %.0f–%.0f | %.1f | %.1f |'):format(how, parked, rates[(ROUNDS + 1) // 2],
    rates[1], rates[ROUNDS], used / ROUNDS / GROUPS * 1e6, broker:memory() / 1e6))
  broker:destroy()
end

print '| queue | parked | others, messages a second | least–most | broker µs a message | broker MB |'
print '| --- | --- | --- | --- | --- | --- |'
for _, how in ipairs { 'durable=1', 'durable=0' } do
  measure(how, false)
  measure(how, true)
end
