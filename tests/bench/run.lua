--- run.lua BUILD OUTPUT [SERVER...]: the same work for each server, in turn.
---
--- Each server runs alone, in a directory of its own, with durable settings that
--- the table states. A scenario is run three times, the servers taking turns; the
--- medians are written as a table in Markdown to OUTPUT. Servers that are not
--- installed are left out.
local build, output = arg[1], arg[2]
local wanted = {}
for i = 3, #arg do wanted[arg[i]] = true end

local ROUNDS = tonumber(os.getenv 'ROUNDS' or 3)
local load_program = build .. '/bench/load'

local function sh(command)
  local pipe = assert(io.popen(command .. '; echo "status $?"'))
  local text = pipe:read 'a'
  pipe:close()
  local out, status = text:match '^(.*)status (%d+)\n$'
  return out, tonumber(status)
end

local function has(program)
  return select(2, sh(('command -v %s >/dev/null 2>&1'):format(program))) == 0
end

local dir = sh 'mktemp -d ${TMPDIR:-/tmp}/tidemq-bench.XXXXXX':gsub('%s+$', '')

--- How each server is started. %d is its directory, %p its port. `stop` ends what
--- the process id alone does not.
local servers = {
  { name = 'fake', driver = 'tidemq', port = 7491, program = build .. '/bench/fake_server',
    version = 'true', settings = 'parses and echoes; stores nothing', start = '%b/bench/fake_server %p',
    only = { ['stream'] = true, ['latency'] = true } },
  { name = 'tidemq', driver = 'tidemq', port = 7492, program = build .. '/tidemq',
    version = build .. '/tidemq --version', settings = '--fsync always',
    start = '%b/tidemq serve --listen 127.0.0.1:%p --data %d --fsync always' },
  { name = 'tidemq-everysec', driver = 'tidemq', port = 7493, program = build .. '/tidemq',
    version = build .. '/tidemq --version', settings = '--fsync everysec',
    start = '%b/tidemq serve --listen 127.0.0.1:%p --data %d --fsync everysec' },
  { name = 'redis-always', driver = 'redis', port = 7494, program = 'redis-server',
    version = 'redis-server --version', settings = 'Streams, appendfsync always',
    start = 'redis-server --bind 127.0.0.1 --port %p --dir %d --save "" --appendonly yes --appendfsync always' },
  { name = 'redis-everysec', driver = 'redis', port = 7495, program = 'redis-server',
    version = 'redis-server --version', settings = 'Streams, appendfsync everysec',
    start = 'redis-server --bind 127.0.0.1 --port %p --dir %d --save "" --appendonly yes --appendfsync everysec' },
  { name = 'nats', driver = 'nats', port = 7496, program = 'nats-server',
    version = 'nats-server -v', settings = 'JetStream, file store, not synced before the confirm',
    start = 'nats-server -a 127.0.0.1 -p %p -js -sd %d' },
  { name = 'rabbitmq', driver = 'rabbitmq', port = 7497, program = '/usr/lib/rabbitmq/bin/rabbitmq-server',
    ready = 'completed with',
    version = "dpkg-query -W -f '${Version}' rabbitmq-server",
    settings = 'classic queue, durable, persistent messages',
    start = 'env HOME=%d RABBITMQ_NODENAME=bench@localhost RABBITMQ_NODE_IP_ADDRESS=127.0.0.1 RABBITMQ_NODE_PORT=%p'
      .. ' RABBITMQ_DIST_PORT=7488 ERL_EPMD_PORT=7487 ERL_EPMD_ADDRESS=127.0.0.1 RABBITMQ_MNESIA_BASE=%d'
      .. ' RABBITMQ_LOG_BASE=%d RABBITMQ_PID_FILE=%d/pid RABBITMQ_ENABLED_PLUGINS_FILE=%d/plugins'
      .. ' /usr/lib/rabbitmq/bin/rabbitmq-server',
    stop = 'kill $(cat %d/pid); sleep 4; ERL_EPMD_PORT=7487 epmd -kill >/dev/null' },
  { name = 'rabbitmq-quorum', driver = 'rabbitmq', variant = 'quorum', like = 'rabbitmq',
    settings = 'quorum queue' },
  { name = 'beanstalkd', driver = 'beanstalkd', port = 7489, program = 'beanstalkd',
    version = 'beanstalkd -v', settings = '-f50: synced every 50 ms',
    start = 'beanstalkd -l 127.0.0.1 -p %p -b %d -f50', slow = true },
}

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
}

local function start(server)
  server.dir = ('%s/%s'):format(dir, server.name)
  assert(os.execute('mkdir -p ' .. server.dir))
  local command = server.start:gsub('%%(%a)', { d = server.dir, p = tostring(server.port), b = build })
  local pid = sh(('exec setsid %s >%s/log 2>&1 </dev/null & echo $!'):format(command, server.dir))
  server.pid = assert(pid:match '%d+')
  for _ = 1, 600 do
    local _, status = sh(('bash -c "exec 3<>/dev/tcp/127.0.0.1/%d" 2>/dev/null'):format(server.port))
    -- Some listen before they can serve.
    if status == 0 and server.ready then _, status = sh(('grep -q "%s" %s/log'):format(server.ready, server.dir)) end
    if status == 0 then
      os.execute 'sleep 1'
      return true
    end
    os.execute 'sleep 0.1'
  end
  io.stderr:write(server.name, ' did not start: see ', server.dir, '/log\n')
  return false
end

local function stop(server)
  if server.stop then os.execute((server.stop:gsub('%%d', server.dir)) .. ' 2>/dev/null') end
  os.execute(('kill %s 2>/dev/null'):format(server.pid))
  for _ = 1, 200 do
    if select(2, sh(('kill -0 %s 2>/dev/null'):format(server.pid))) ~= 0 then break end
    os.execute 'sleep 0.1'
  end
  os.execute('rm -rf ' .. server.dir)
end

--- The server and the processes that it started.
local function family(server)
  local is_in, pids = {}, {}
  for pid, ppid, sid in sh('ps -eo pid=,ppid=,sid= --sort=start_time'):gmatch '(%d+) +(%d+) +(%d+)' do
    if sid == server.pid or is_in[ppid] then
      is_in[pid] = true
      pids[#pids + 1] = pid
    end
  end
  return pids
end

--- Processor time of all their threads, in seconds, to the nanosecond.
local function cpu(server)
  local total = 0
  for _, pid in ipairs(family(server)) do
    local text = sh(('cat /proc/%s/task/*/schedstat 2>/dev/null'):format(pid))
    for nanoseconds in text:gmatch '(%d+) %d+ %d+\n' do total = total + tonumber(nanoseconds) / 1e9 end
  end
  return total
end

local function run(server, scenario, round)
  local count = scenario.count or (server.slow and 50000 or 200000)
  local command = ('%s %s --port %d --count %d %s %s'):format(load_program, server.driver, server.port, count,
    scenario.args, server.variant and '--variant ' .. server.variant or '')
  local before = cpu(server)
  local text, status = sh(command .. ' 2>&1')
  if status ~= 0 then
    io.stderr:write(('%s, %s: %s'):format(server.name, scenario.name, text))
    return nil
  end
  local result = { cpu = (cpu(server) - before) / count * 1e6 }
  for key, value in text:gmatch '"([%w_]+)":([%d.]+)' do result[key] = result[key] or tonumber(value) end
  result.confirm50, result.confirm99 = text:match '"confirm_us":{"p50":([%d.]+),"p99":([%d.]+)}'
  result.deliver50, result.deliver99 = text:match '"deliver_us":{"p50":([%d.]+),"p99":([%d.]+)}'
  io.stderr:write(('%-16s %-9s %d: %8d a second, confirm %s, deliver %s us\n'):format(server.name, scenario.name,
    round, result.per_second, result.confirm50, result.deliver50))
  return result
end

local function median(results, key)
  local values = {}
  for _, r in ipairs(results) do values[#values + 1] = tonumber(r[key]) end
  table.sort(values)
  return values[(#values + 1) // 2]
end

local by_name, present = {}, {}
for _, server in ipairs(servers) do
  by_name[server.name] = server
  local base = server.like and by_name[server.like] or server
  if (next(wanted) == nil or wanted[server.name]) and has(base.program) then
    if base ~= server then setmetatable(server, { __index = base }) end
    present[#present + 1] = server
    server.results = {}
  end
end

for round = 1, ROUNDS do
  for _, server in ipairs(present) do
    if start(server) then
      for _, scenario in ipairs(scenarios) do
        if not server.only or server.only[scenario.name] then
          local result = run(server, scenario, round)
          server.results[scenario.name] = server.results[scenario.name] or {}
          if result then table.insert(server.results[scenario.name], result) end
        end
      end
    end
    stop(server)
  end
end

-- ---- the table ---------------------------------------------------------------

local function thousands(n)
  local text = ('%d'):format(math.floor(n + 0.5))
  return (text:reverse():gsub('(%d%d%d)', '%1,'):reverse():gsub('^,', ''))
end

local lines = {}
local function line(format, ...) lines[#lines + 1] = format:format(...) end

local function cpu_name()
  return sh "sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1":gsub('%s+$', '')
end

line('Machine: %s, %s cores, Linux %s. Commit %s. Medians of %d runs, the servers in turn.', cpu_name(),
  sh 'nproc':gsub('%s', ''), sh 'uname -r':gsub('%s', ''), sh 'git rev-parse --short HEAD':gsub('%s', ''), ROUNDS)
line ''
line '| server | version | settings |'
line '| --- | --- | --- |'
for _, server in ipairs(present) do
  line('| %s | %s | %s |', server.name, sh(server.version):match '[%d.]*%d' or '', server.settings)
end

local ours = by_name.tidemq.results and by_name.tidemq or present[1]
for _, scenario in ipairs(scenarios) do
  local base = ours.results[scenario.name]
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
        line('| %s | %s | %.1f × | %.2f |', server.name, thousands(value),
          base and #base > 0 and median(base, scenario.figure) / value or 0, median(r, 'cpu'))
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

os.execute('rm -rf ' .. dir)
local file = assert(io.open(output, 'w'))
file:write(table.concat(lines, '\n'), '\n')
file:close()
print(table.concat(lines, '\n'))
