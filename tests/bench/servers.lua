--- servers.lua: the servers that the loads are put on, and what both runners need.
---
--- Each server runs alone, in a directory of its own, with durable settings that
--- the tables state.
package.path = './tests/integration/?.lua;' .. package.path
local shell = require 'support.shell'
local wait = require 'support.wait'

local sh = shell.run

local M = {}

local function has(program)
  return select(2, sh(('command -v %s >/dev/null 2>&1'):format(program))) == 0
end

--- How each server is started. %d is its directory, %p its port, %b the build. `stop`
--- ends what the process id alone does not. `topic` says what it is as a topic, with
--- other settings than as a queue; without it there is no such. `info` prints what its
--- memory holds, as Redis says it. One that `is_asked_for` takes part when it is named.
local function list(build)
  return {
    { name = 'fake', driver = 'tidemq', port = 7491, program = build .. '/bench/fake_server',
      version = 'true', settings = 'parses and echoes; stores nothing', start = '%b/bench/fake_server %p',
      only = { stream = true, latency = true, append = true, window = true, tail = true, tails = true },
      topic = 'parses and echoes; stores nothing' },
    { name = 'tidemq', driver = 'tidemq', port = 7492, program = build .. '/tidemq',
      version = build .. '/tidemq --version', settings = '--fsync always', topic = '--fsync always',
      info = 'redis-cli -s %d/redis.sock info memory',
      start = '%b/tidemq serve --http none --listen 127.0.0.1:%p --data %d --fsync always' },
    { name = 'tidemq-everysec', driver = 'tidemq', port = 7493, program = build .. '/tidemq',
      version = build .. '/tidemq --version', settings = '--fsync everysec', topic = '--fsync everysec',
      info = 'redis-cli -s %d/redis.sock info memory',
      start = '%b/tidemq serve --http none --listen 127.0.0.1:%p --data %d --fsync everysec' },
    { name = 'redis-always', driver = 'redis', port = 7494, program = 'redis-server',
      version = 'redis-server --version', settings = 'Streams, appendfsync always',
      topic = 'Streams, appendfsync always',
      info = 'redis-cli -p %p info memory', ready = 'Ready to accept connections',
      start = 'redis-server --bind 127.0.0.1 --port %p --dir %d --save "" --appendonly yes --appendfsync always' },
    { name = 'redis-everysec', driver = 'redis', port = 7495, program = 'redis-server',
      version = 'redis-server --version', settings = 'Streams, appendfsync everysec',
      topic = 'Streams, appendfsync everysec',
      info = 'redis-cli -p %p info memory', ready = 'Ready to accept connections',
      start = 'redis-server --bind 127.0.0.1 --port %p --dir %d --save "" --appendonly yes --appendfsync everysec' },
    { name = 'nats', driver = 'nats', port = 7496, program = 'nats-server',
      version = 'nats-server -v', settings = 'JetStream, file store, not synced before the confirm',
      topic = 'JetStream, file store, not synced before the confirm; push consumers, `ack_policy` all',
      ready = 'Server is ready', start = 'nats-server -a 127.0.0.1 -p %p -js -sd %d' },
    { name = 'rabbitmq', driver = 'rabbitmq', port = 7497, program = '/usr/lib/rabbitmq/bin/rabbitmq-server',
      ready = 'completed with',
      version = "dpkg-query -W -f '${Version}' rabbitmq-server",
      settings = 'classic queue, durable, persistent messages',
      topic = 'stream over AMQP, not synced before the confirm; it has no groups: each consumer reads for itself',
      start = 'env HOME=%d RABBITMQ_NODENAME=bench@localhost RABBITMQ_NODE_IP_ADDRESS=127.0.0.1 RABBITMQ_NODE_PORT=%p'
        .. ' RABBITMQ_DIST_PORT=7488 ERL_EPMD_PORT=7487 ERL_EPMD_ADDRESS=127.0.0.1 RABBITMQ_MNESIA_BASE=%d'
        .. ' RABBITMQ_LOG_BASE=%d RABBITMQ_PID_FILE=%d/pid RABBITMQ_ENABLED_PLUGINS_FILE=%d/plugins'
        .. ' /usr/lib/rabbitmq/bin/rabbitmq-server',
      stop = 'pid=$(cat %d/pid); kill $pid; timeout 30 tail --pid=$pid -f /dev/null;'
        .. ' ERL_EPMD_PORT=7487 epmd -kill >/dev/null' },
    { name = 'rabbitmq-quorum', driver = 'rabbitmq', variant = 'quorum', like = 'rabbitmq',
      settings = 'quorum queue' },
    { name = 'beanstalkd', driver = 'beanstalkd', port = 7489, program = 'beanstalkd',
      version = 'beanstalkd -v', settings = '-f50: synced every 50 ms',
      start = 'beanstalkd -l 127.0.0.1 -p %p -b %d -f50', slow = true },
    { name = 'confirm-master', driver = 'tidemq', port = 7480, program = build .. '/tidemq', is_asked_for = true,
      version = build .. '/tidemq --version', settings = '--confirm master; Redis has a replica, both fsync always',
      start = 'tests/bench/replicated.sh %b %d %p master',
      only = { stream = true, fill = true, alone = true } },
    { name = 'confirm-replicas', port = 7483, like = 'confirm-master', is_asked_for = true,
      settings = '--confirm replicas=1; the same', start = 'tests/bench/replicated.sh %b %d %p replicas=1' },
  }
end

local Server = {}
Server.__index = Server

--- The command with the words of this server in it.
function Server:command(text)
  return (text:gsub('%%(%a)', { d = self.dir, p = tostring(self.port), b = self.build }))
end

function Server:has_ended()
  return not shell.is_running(self.pid)
end

--- Start it in its directory, and wait until it serves.
---@return boolean
function Server:run()
  assert(os.execute('mkdir -p ' .. self.dir))
  local pid = sh(('exec setsid %s >%s/log 2>&1 </dev/null & echo $!'):format(self:command(self.start), self.dir))
  self.pid = assert(pid:match '%d+')
  local state = wait.poll(function()
    local _, status = sh(('bash -c "exec 3<>/dev/tcp/127.0.0.1/%d" 2>/dev/null'):format(self.port))
    -- Some listen before they can serve.
    if status == 0 and self.ready then _, status = sh(('grep -q "%s" %s/log'):format(self.ready, self.dir)) end
    return status == 0 and 'ready' or self:has_ended() and 'ended'
  end, 300)
  if state == 'ready' then return true end
  io.stderr:write(self.name, ' did not start: see ', self.dir, '/log\n')
  return false
end

--- End it; what it has stored stays.
function Server:halt()
  if self.stop then os.execute(self:command(self.stop) .. ' 2>/dev/null') end
  os.execute(('kill %s 2>/dev/null'):format(self.pid))
  wait.poll(function() return self:has_ended() end, 60)
end

--- End it, and remove its directory.
function Server:remove()
  self:halt()
  os.execute('rm -rf ' .. self.dir)
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

--- Processor time of all its threads, in seconds, to the nanosecond.
function Server:cpu()
  local total = 0
  for _, pid in ipairs(family(self)) do
    local text = sh(('cat /proc/%s/task/*/schedstat 2>/dev/null'):format(pid))
    for nanoseconds in text:gmatch '(%d+) %d+ %d+\n' do total = total + tonumber(nanoseconds) / 1e9 end
  end
  return total
end

--- Put a load on it: tests/bench/peers/load.c.
---@param name string of the load, for the progress
---@param count integer messages
---@param args string of the load
---@return table? figures by name; nil when it failed, which has been said
function Server:load(name, count, args)
  local command = ('%s/bench/load %s --port %d --count %d %s'):format(self.build, self.driver, self.port, count, args)
  local before = self:cpu()
  local text, status = sh(command .. ' 2>&1')
  if status ~= 0 then
    io.stderr:write(('%s, %s: %s'):format(self.name, name, text))
    return nil
  end
  local result = { cpu = (self:cpu() - before) / count * 1e6 }
  for key, value in text:gmatch '"([%w_]+)":([%d.]+)' do result[key] = result[key] or tonumber(value) end
  result.confirm50, result.confirm99 = text:match '"confirm_us":{"p50":([%d.]+),"p99":([%d.]+)}'
  result.deliver50, result.deliver99 = text:match '"deliver_us":{"p50":([%d.]+),"p99":([%d.]+)}'
  return result
end

--- The servers that are installed, or those of them that are wanted.
---@param build string
---@param names string[] empty: all
---@return table[] servers with an empty `results` each
---@return string dir to be removed at the end
function M.present(build, names)
  local dir = sh 'mktemp -d ${TMPDIR:-/tmp}/tidemq-bench.XXXXXX':gsub('%s+$', '')
  local wanted, by_name, present = {}, {}, {}
  for _, name in ipairs(names) do wanted[name] = true end
  for _, server in ipairs(list(build)) do
    by_name[server.name] = server
    local base = server.like and by_name[server.like] or server
    if (wanted[server.name] or next(wanted) == nil and not server.is_asked_for) and has(base.program) then
      local inherited = base ~= server and base or {}
      setmetatable(server, { __index = function(_, key)
        if inherited[key] ~= nil and key ~= 'topic' then return inherited[key] end
        return Server[key]
      end })
      server.build, server.dir, server.results = build, ('%s/%s'):format(dir, server.name), {}
      present[#present + 1] = server
    end
  end
  return present, dir
end

---@return number? the middle one of the figures of that name; nil when there are none
function M.median(results, key)
  local values = {}
  for _, r in ipairs(results or {}) do values[#values + 1] = tonumber(r[key]) end
  table.sort(values)
  return values[(#values + 1) // 2]
end

function M.thousands(n)
  local text = ('%d'):format(math.floor(n + 0.5))
  return (text:reverse():gsub('(%d%d%d)', '%1,'):reverse():gsub('^,', ''))
end

--- The line that says where and how figures were measured.
function M.machine(rounds)
  local cpu = sh "sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1":gsub('%s+$', '')
  return ('Machine: %s, %s cores, Linux %s. Commit %s. Medians of %d runs, the servers in turn.'):format(cpu,
    sh 'nproc':gsub('%s', ''), sh 'uname -r':gsub('%s', ''), sh 'git rev-parse --short HEAD':gsub('%s', ''), rounds)
end

--- The table of the servers: what they are and how they were set.
---@param settings string the field that says how
function M.table(present, line, settings)
  line '| server | version | settings |'
  line '| --- | --- | --- |'
  for _, server in ipairs(present) do
    line('| %s | %s | %s |', server.name, sh(server.version):match '[%d.]*%d' or '', server[settings])
  end
end

--- Lines of a file that is written and printed at the end.
function M.lines()
  local lines = {}
  local function line(format, ...) lines[#lines + 1] = format:format(...) end
  local function write(path)
    local file = assert(io.open(path, 'w'))
    file:write(table.concat(lines, '\n'), '\n')
    file:close()
    print(table.concat(lines, '\n'))
  end
  return line, write
end

return M
