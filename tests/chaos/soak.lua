--- soak.lua: keep a broker busy with everything at once for $TIME (default 60s; 90s, 10m,
--- 1h), and draw its memory, descriptors and latency to $OUT (default build/soak.svg).
--- Fails when memory or descriptors grow: the last fifth against the second one.
package.path = './tests/?.lua;./tests/integration/?.lua;' .. package.path
local Broker = require 'support.broker'
local chart = require 'chaos.support.chart'
local lfs = require 'lfs'
local shell = require 'support.shell'
local socket = require 'socket'

local TURN = 0.010 -- seconds

local function seconds_of(text)
  local n, unit = text:match '^(%d+)([smh]?)$'
  assert(n, 'TIME is a number of seconds, or like 90s, 30m, 1h; not ' .. text)
  return tonumber(n) * ({ [''] = 1, s = 1, m = 60, h = 3600 })[unit]
end

local QUEUES = {
  { name = 'jobs', options = 'dead-letter=-/dead' },
  { name = 'ranked', options = 'priority=strict shards=4' },
  { name = 'later', options = '' },
  { name = 'eu', options = '' },
  { name = 'dead', options = '' },
}

local kinds = {
  function() return '- jobs' end,
  function(n) return '- jobs id=p' .. n end,
  function() return '- ranked pri=' .. math.random(0, 9) end,
  function() return '- later delay=' .. math.random(2000) end,
  function() return '- later ttl=' .. math.random(20, 2000) end,
  function(n) return ('orders orders.%s.%d h:tier=gold'):format(n % 2 == 0 and 'eu' or 'us', n % 1000) end,
}

-- ---- clients ---------------------------------------------------------------

local function declare(broker)
  local c = broker:connect()
  for _, queue in ipairs(QUEUES) do
    c:ok((('DECLARE queue %s %s'):format(queue.name, queue.options):gsub(' $', '')))
  end
  c:ok 'DECLARE exchange orders topic'
  c:ok 'BIND eu orders orders.eu.#'
  c:close()
end

local function publish(state)
  local lines = {}
  for _ = 1, math.random(40) do
    state.sent = state.sent + 1
    local payload = ('x'):rep(math.random(10, math.random(20) == 1 and 20000 or 500))
    lines[#lines + 1] = ('PUB %s %d\r\n%s\r\n'):format(kinds[math.random(#kinds)](state.sent), #payload, payload)
  end
  state.publisher:send(table.concat(lines))
  while true do
    local line = state.publisher:read_line(0)
    if not line then break end
    assert(line:find '^OK' or line:find '^EVT', line)
    if line:find '^OK' then state.confirmed = state.confirmed + 1 end
  end
end

local function consume(state)
  local lines = {}
  while true do
    local line = state.consumer:read_line(0)
    if not line then break end
    if line:find '^MSG' then
      local msg = state.consumer:delivery(line)
      local verb = math.random(30) == 1 and 'NACK %s delay=50 quiet\r\n' or 'ACK %s quiet\r\n'
      -- The others have no dead-letter target: they would keep what is dead.
      if msg.sid == 'jobs' and math.random(100) == 1 then verb = 'NACK %s dead quiet\r\n' end
      lines[#lines + 1] = verb:format(msg.tag)
    end
  end
  if #lines > 0 then state.consumer:send(table.concat(lines)) end
end

--- Clients that come and go, with queues and bindings of their own.
local function churn(state)
  local c = state.broker:connect()
  c:enter_vhost('v' .. math.random(20))
  c:ok 'DECLARE queue mine exclusive'
  c:ok 'DECLARE exchange x fanout auto-delete'
  c:ok 'BIND mine x -'
  c:ok('PUB x -', 'hello')
  c:get 'mine'
  c:document 'STATS'
  c:document 'LIST queues'
  c:close() -- with a message in hand
  if state.churned % 20 == 0 then
    local text = ('return { doc = "%d", publish = function() end }\n'):format(state.churned)
    state.broker:write_rule('filter/soak.lua', text)
  end
  state.churned = state.churned + 1
end

--- What one publisher waits for a confirm, and then for the message.
local function probe(state)
  local began = socket.gettime()
  state.prober:ok('PUB - probe', 'x')
  state.latencies[#state.latencies + 1] = (socket.gettime() - began) * 1000
  state.prober:get 'probe ack=auto'
end

-- ---- samples -----------------------------------------------------------------

local function descriptors(pid)
  local n = 0
  for name in lfs.dir('/proc/' .. pid .. '/fd') do
    if name:find '^%d' then n = n + 1 end
  end
  return n
end

local function percentile(sorted, share) return sorted[math.max(1, math.ceil(#sorted * share))] or 0 end

local function sample(state, samples, now)
  table.sort(state.latencies)
  local function add(name, value) samples[name][#samples[name] + 1] = value end
  add('times', now)
  add('memory', state.broker:memory() / 1048576)
  add('descriptors', descriptors(state.broker:pid()))
  add('p50', percentile(state.latencies, 0.5))
  add('p99', percentile(state.latencies, 0.99))
  add('rate', (state.confirmed - state.confirmed_then) / state.interval)
  state.latencies, state.confirmed_then = {}, state.confirmed
end

local function mean(values, from, to)
  local sum, first, last = 0, math.floor(#values * from) + 1, math.floor(#values * to)
  for i = first, last do sum = sum + values[i] end
  return sum / math.max(1, last - first + 1)
end

local function run(broker, seconds)
  declare(broker)
  local state = {
    broker = broker, publisher = broker:connect(), consumer = broker:connect(), prober = broker:connect(),
    sent = 0, confirmed = 0, confirmed_then = 0, churned = 1, latencies = {}, interval = math.max(1, seconds / 300),
  }
  state.prober:ok 'DECLARE queue probe'
  for _, queue in ipairs(QUEUES) do state.consumer:ok(('SUB %s %s prefetch=200'):format(queue.name, queue.name)) end
  local samples = { times = {}, memory = {}, descriptors = {}, p50 = {}, p99 = {}, rate = {} }
  local began, turns = socket.gettime(), 0
  local next_sample = state.interval
  while true do
    local now = socket.gettime() - began
    if now >= seconds then return state, samples end
    turns = turns + 1
    publish(state)
    consume(state)
    if turns % 5 == 0 then probe(state) end
    if turns % 25 == 0 then churn(state) end
    if now >= next_sample then
      sample(state, samples, now)
      next_sample = next_sample + state.interval
      if #samples.times % 10 == 0 then
        print(('%5.0f s: %d confirmed, %.1f MiB, %d descriptors'):format(now, state.confirmed,
          samples.memory[#samples.memory], samples.descriptors[#samples.descriptors]))
        io.stdout:flush()
      end
    end
    socket.sleep(math.max(0, turns * TURN - (socket.gettime() - began)))
  end
end

local function main()
  local seconds = seconds_of(os.getenv 'TIME' or '60s')
  local out = os.getenv 'OUT' or 'build/soak.svg'
  local broker = Broker.start { rules = {} }
  local state, samples = run(broker, seconds)
  broker:expect_clean_stop(30)
  broker:destroy()
  local subtitle = ('%d messages confirmed in %s, %.0f a second; %d short connections; rules reloaded %d times'):format(
    state.confirmed, seconds >= 120 and ('%.0f minutes'):format(seconds / 60) or seconds .. ' s',
    state.confirmed / seconds, state.churned, state.churned // 20)
  shell.write_file(out, chart.draw('tidemq under load: everything at once, one broker, fsync always', subtitle,
    samples.times, {
      { title = 'resident memory of the broker, MiB', lines = { { name = 'memory', values = samples.memory } } },
      { title = 'open descriptors', lines = { { name = 'descriptors', values = samples.descriptors } } },
      { title = 'from publish to confirm, ms', lines = {
        { name = 'median', values = samples.p50 }, { name = '99 %', values = samples.p99 } } },
      { title = 'confirmed messages a second', lines = { { name = 'rate', values = samples.rate } } },
    }))
  print(subtitle)
  local status = true
  for _, name in ipairs { 'memory', 'descriptors' } do
    local early, late = mean(samples[name], 0.2, 0.4), mean(samples[name], 0.8, 1)
    local grew = late > early * 1.25 + 2
    print(('%s: %.1f, later %.1f%s'):format(name, early, late, grew and ': GROWS' or ''))
    status = status and not grew
  end
  print('drawn to ' .. out)
  os.exit(status)
end

main()
