--- The real binary on a real Redis, in a directory of its own:
---
---   local broker = Broker.start { args = { '--fsync', 'no' } }
---   local c = broker:connect()
---   ...
---   broker:expect_clean_stop()
---
--- The binary is $TIDEMQ, or build/tidemq. Everything that a broker started is
--- ended when the test process ends, however that comes about; `destroy` does
--- it earlier.
local Client = require 'support.client'
local Redis = require 'support.redis'
local lfs = require 'lfs'
local shell = require 'support.shell'
local wait = require 'support.wait'

---@class Broker
---@field dir string the temporary directory of this broker
---@field data string its data directory
---@field rules string its rules directory
---@field address string where its first listener listens
---@field redis Redis? of the option `redis`
---@field addresses string[] all of them, in the order of --listen
---@field http_address string? where it listens for HTTP
local Broker = {}
Broker.__index = Broker

local quote = shell.quote

local root = shell.line 'pwd'

local function support(self, verb)
  return ('TIDE_TEST_DIR=%s exec bash %s/tests/integration/support/process.sh %s'):format(
    quote(self.dir), quote(root), verb)
end

--- The path of the binary under test.
---@return string
function Broker.binary()
  local path = os.getenv 'TIDEMQ' or 'build/tidemq'
  return path:sub(1, 1) == '/' and path or root .. '/' .. path
end

--- Is it built with AddressSanitizer? Then it bears no other clock.
function Broker.is_sanitized()
  return Broker.binary():find('asan', 1, true) ~= nil
end

--- In arguments, environment and listeners `@DIR@` stands for the broker's own directory.
---@class BrokerOptions
---@field args? string[] more arguments for `serve`
---@field binary? string another one than that under test
---@field env? table<string, string>
---@field listen? string[] default: 127.0.0.1:0
---@field http? string where it listens for HTTP; default: nowhere
---@field rules? string|table<string, string> a directory (default: the repository's rules), or the files of one, by
---  their path in it
---@field config? string a configuration file
---@field certs? Certs for listeners with TLS
---@field redis? string[] run on a Redis of the test's own, started with these arguments and ended with the broker
---@field stack_kib? integer of the process, which has some MiB without it
---@field files? integer descriptors that the process may have open
---@field log_pipe? boolean its log is a pipe, @DIR@/log, that nobody reads
---@field may_fail? boolean the start may fail: `start` then returns nil, the standard error and the exit status
---@field stopped? boolean make everything ready, and start nothing: `run` or `launch` does

local known = {
  args = true, binary = true, certs = true, config = true, env = true, http = true, redis = true, listen = true,
  rules = true, stack_kib = true,
  files = true, log_pipe = true, may_fail = true, stopped = true,
}

---@param options BrokerOptions?
---@return Broker?, string?, integer?
function Broker.start(options)
  options = options or {}
  for name in pairs(options) do
    if not known[name] then error('Broker.start has no option ' .. name, 2) end
  end
  local self = setmetatable({ options = options }, Broker)
  self.dir = shell.make_dir 'tidemq-test'
  self.guard = assert(io.popen(support(self, 'guard'), 'w'))
  self.data = self.dir .. '/data'
  assert(os.execute('mkdir ' .. quote(self.data)))
  if options.log_pipe then assert(os.execute('mkfifo ' .. quote(self.dir .. '/log'))) end
  if options.redis then self.redis = Redis.start(options.redis) end
  self.rules = type(options.rules) == 'string' and options.rules or shell.shipped_rules()
  if type(options.rules) == 'table' then
    self.rules = self.dir .. '/rules'
    assert(os.execute('mkdir ' .. quote(self.rules)))
    for path, text in pairs(options.rules) do self:write_rule(path, text) end
  end
  if options.stopped then return self end
  return self:run() -- with all that it returns
end

local function command_line(self)
  local limit = self.options.stack_kib and ('ulimit -s %d; '):format(self.options.stack_kib) or ''
  if self.options.files then limit = limit .. ('ulimit -n %d; '):format(self.options.files) end
  local words = { limit .. 'exec', 'env' }
  local function add(word)
    words[#words + 1] = quote((tostring(word):gsub('@DIR@', self.dir)))
  end
  for name, value in pairs(self.options.env or {}) do add(name .. '=' .. value) end
  add(self.options.binary or Broker.binary())
  add 'serve'
  for _, address in ipairs(self.options.listen or { '127.0.0.1:0' }) do
    add '--listen'
    add(address)
  end
  -- On a busy machine any turn may be slow: that is in the log of those who ask for it.
  for _, word in ipairs {
    '--http', self.options.http or 'none', '--slow-turn', '0', '--data', self.data, '--rules', self.rules,
  } do
    add(word)
  end
  if self.redis then
    add '--store'
    add(self.redis.url)
  end
  local certs = self.options.certs
  for _, word in ipairs(certs and { '--tls-cert', certs:cert 'server', '--tls-key', certs:key 'server' } or {}) do
    add(word)
  end
  if self.options.config then
    shell.write_file(self.dir .. '/config.lua', self.options.config)
    add '--config'
    add '@DIR@/config.lua'
  end
  for _, word in ipairs(self.options.args or {}) do add(word) end
  -- Open for reading too, the pipe has a reader, who does not read.
  if self.options.log_pipe then words[#words + 1] = '2<>' .. quote(self.dir .. '/log') end
  return table.concat(words, ' ') .. '\n'
end

local function release_connections(self)
  for _, address in ipairs(self.addresses or {}) do Client.release(address) end
  if self.http_address then Client.release(self.http_address) end
end

--- Start the process; it may not listen yet.
function Broker:launch()
  release_connections(self)
  shell.write_file(self.dir .. '/command', command_line(self))
  for _, name in ipairs { 'pid', 'exit', 'stdout' } do os.remove(self.dir .. '/' .. name) end
  assert(os.execute(support(self, 'run')))
end

--- Wait until every listener listens, or the process has ended.
---@param seconds number? default: 60
---@return true|integer|nil ready true, the exit status, or nil when neither came in time
function Broker:wait_ready(seconds)
  local count = #(self.options.listen or { 1 })
  local ready = wait.poll(function()
    self.addresses, self.http_address = {}, nil
    for line in (shell.read_file(self.dir .. '/stdout') or ''):gmatch '([^\n]*)\n' do
      self.addresses[#self.addresses + 1] = line:match '^listening on (%S+)'
      self.http_address = line:match '^http on (%S+)' or self.http_address
    end
    -- Its pid is written by another process, which may be the later one.
    local is_known = shell.read_file(self.dir .. '/pid') ~= nil
    local has_http = self.http_address or not self.options.http
    return (is_known and has_http and #self.addresses >= count) or self:exit_status()
  end, seconds or 60)
  self.address = self.addresses[1]
  return ready
end

--- Start the process and wait until every listener listens.
---@return Broker?, string?, integer?
function Broker:run()
  self:launch()
  local ready = self:wait_ready()
  if ready == true then return self end
  local text = ('the broker did not start (%s):\n%s'):format(
    ready and 'status ' .. ready or 'no "listening on" in time', self:log())
  local log = self:log()
  self:destroy()
  -- A sanitizer ends the process with the status of a start that fails.
  local is_sound = not log:find('AddressSanitizer', 1, true) and not log:find('runtime error:', 1, true)
  if self.options.may_fail and is_sound then return nil, log, ready end
  error(text, 3)
end

---@return integer
function Broker:pid()
  return assert(math.tointeger(tonumber(shell.read_file(self.dir .. '/pid'))), 'the broker was never started')
end

--- The status it ended with (128 + n for signal n), nil while it runs.
---@return integer?
function Broker:exit_status()
  return math.tointeger(tonumber(shell.read_file(self.dir .. '/exit')))
end

---@return boolean
function Broker:is_running()
  return self:exit_status() == nil
end

--- Everything it wrote to standard error, through restarts.
---@return string
function Broker:log()
  return shell.read_file(self.dir .. '/stderr') or ''
end

--- What it wrote to standard output since its last start.
---@return string
function Broker:stdout()
  return shell.read_file(self.dir .. '/stdout') or ''
end

--- Wait for a line of the log; gives the captures.
---@param pattern string
---@param seconds number?
---@return string ...
function Broker:expect_log(pattern, seconds)
  if not wait.poll(function() return self:log():find(pattern) end, seconds) then
    error(('no %q in the log:\n%s'):format(pattern, self:log()), 2)
  end
  return self:log():match(pattern)
end

--- A connection, in the vhost of `enter_vhost` if there is one.
---@param n integer? the listener; default: the first
---@param tls table? as Client.connect has it; default: for a listener with TLS, that of `certs`
---@return Client
function Broker:connect(n, tls)
  local address = self.addresses[n or 1]
  local certs = self.options.certs
  if certs and address:find '^tls:' then tls = tls or { cafile = certs:cert 'ca' } end
  local client = Client.connect(address, function()
    local log = self:log()
    local status = self:exit_status()
    return ('-- the broker %s; its log ends:\n%s'):format(
      status and 'ended with status ' .. status or 'runs', log:sub(-2000))
  end, tls)
  if not self.vhost then return client end
  -- Without a store a broker that was started again does not know it.
  local which = self.vhost .. ' ' .. self:pid()
  if self.known_vhost == which then
    client:document('HELLO vhost=' .. self.vhost)
  else
    client:enter_vhost(self.vhost)
    self.known_vhost = which
  end
  return client
end

--- From now on connections, the command line and `key` are in a vhost that is new: a
--- test finds nothing of the one before it. A broker that this one left dead runs again.
---@return Client in that vhost
function Broker:enter_vhost()
  if not self:is_running() then self:run() end
  self.vhosts = (self.vhosts or 0) + 1
  self.vhost = 'test-' .. self.vhosts
  return self:connect()
end

--- The name in Redis of one set of a queue's first shard.
---@param queue string
---@param set string ready, delayed, unack, buried, msg, tries, dedupe
---@return string
function Broker:key(queue, set)
  return ('tide:{%s/%s#0}:%s'):format(self.vhost or '/', queue, set)
end

--- Wait until Redis has no message of a queue.
---@param queue string
function Broker:expect_no_messages(queue)
  for _, set in ipairs { 'msg', 'ready', 'delayed', 'unack', 'expiry', 'tries' } do
    local key = self:key(queue, set)
    assert(wait.poll(function() return self:redis_cli('EXISTS', key) == '0' end), key)
  end
end

---@param name string a signal: TERM, HUP, KILL, STOP, CONT, ...
function Broker:signal(name)
  assert(os.execute(('kill -%s %d'):format(name, self:pid())))
end

local function wait_exit(self, seconds)
  local status = wait.poll(function() return self:exit_status() end, seconds)
  if status then return status end
  self:destroy()
  error('the broker did not end in time', 3)
end

--- kill -9 of the broker alone; its Redis is left as it is.
function Broker:kill9()
  self:signal 'KILL'
  wait_exit(self)
end

--- kill -9 of the broker and its Redis.
function Broker:kill9_all()
  local pids = self:processes()
  if #pids > 0 then os.execute('kill -9 ' .. table.concat(pids, ' ') .. ' 2>/dev/null') end
  wait_exit(self)
  assert(wait.poll(function() return #self:processes() == 0 end), 'a process survived kill -9')
end

--- kill -9 of its Redis alone.
function Broker:kill9_redis()
  os.execute('kill -9 ' .. self:redis_pid())
end

--- The pids of the broker and everything that it started.
---@return integer[]
function Broker:processes()
  local pids = {}
  for name in lfs.dir '/proc' do
    local pid = math.tointeger(tonumber(name))
    local place = pid and '/proc/' .. name
    local cwd = pid and lfs.symlinkattributes(place .. '/cwd', 'target') or ''
    if pid and (cwd:sub(1, #self.dir) == self.dir
        or (shell.read_file(place .. '/cmdline') or ''):find(self.dir, 1, true)) then
      pids[#pids + 1] = pid
    end
  end
  return pids
end

--- SIGTERM; the broker must end with status 0 within the time and leave no process.
--- The directory is kept, for `restart`.
---@param seconds number?
function Broker:expect_clean_stop(seconds)
  -- One that is stopping may be gone before its status is known.
  if self:is_running() then os.execute(('kill -TERM %d 2>/dev/null'):format(self:pid())) end
  local status = wait_exit(self, seconds)
  local is_clean = wait.poll(function() return #self:processes() == 0 end, seconds)
  if status ~= 0 or not is_clean then
    local text = ('after SIGTERM: status %d, %d processes left:\n%s'):format(status, #self:processes(), self:log())
    self:destroy()
    error(text, 2)
  end
end

--- Start again on the same data, after a stop (done here if it still runs) or a kill.
---@return Broker
function Broker:restart()
  if self:is_running() then self:expect_clean_stop() end
  return self:run()
end

--- End it in that way, start it again on the same data, and connect.
---@param how 'expect_clean_stop'|'kill9'|'kill9_all'
---@return Client
function Broker:restart_after(how)
  self[how](self)
  return self:run():connect()
end

--- redis-cli on the embedded Redis; gives what it printed, without the last line break.
---@param ... string|number
---@return string
function Broker:redis_cli(...)
  local words = {}
  for i, word in ipairs { ... } do words[i] = quote(word) end
  return shell.line(('timeout %d redis-cli -s %s %s 2>&1'):format(
    wait.limit(20), quote(self.data .. '/redis.sock'), table.concat(words, ' ')))
end

---@return integer
function Broker:redis_pid()
  local answer
  -- One that was killed is started again in a moment.
  local pid = wait.poll(function()
    answer = self:redis_cli('INFO', 'server')
    return math.tointeger(tonumber(answer:match 'process_id:(%d+)'))
  end)
  return pid or error(('the embedded Redis does not answer: %q'):format(answer), 2)
end

--- The broker's resident memory.
---@return integer bytes
function Broker:memory()
  local pages = shell.read_file(('/proc/%d/statm'):format(self:pid())):match '^%d+ (%d+)'
  return math.tointeger(tonumber(pages)) * 4096
end

--- Its resident memory is below this, in bytes. A sanitized broker is not asked: it keeps what was freed.
function Broker:expect_memory_below(bytes)
  local now = self:memory()
  assert(now < bytes or Broker.is_sanitized(),
    ('the broker has %.1f MB, not less than %.1f'):format(now / 1e6, bytes / 1e6))
end

--- Write a file of a private rules directory at once (no half of it is seen).
---@param path string relative to the directory, like routing/mine.lua
---@param text string
function Broker:write_rule(path, text)
  assert(self.rules:sub(1, #self.dir) == self.dir, 'start the broker with rules = {} to write rules')
  local target = self.rules .. '/' .. path
  shell.write_file(target .. '.new', text)
  assert(os.rename(target .. '.new', target))
end

--- A directory with a copy of the rules and these files on top.
---@param name string what it is called in the broker's directory
---@param files table<string, string>
---@return string path
function Broker:copy_rules(name, files)
  local dir = self.dir .. '/' .. name
  assert(os.execute(('rm -rf %s && cp -R %s %s'):format(quote(dir), quote(self.rules), quote(dir))))
  for path, text in pairs(files) do shell.write_file(dir .. '/' .. path, text) end
  return dir
end

---@param path string
function Broker:remove_rule(path)
  assert(self.rules:sub(1, #self.dir) == self.dir, 'start the broker with rules = {} to remove rules')
  assert(os.remove(self.rules .. '/' .. path))
end

---@return string for --url and TIDEMQ_URL
function Broker:url()
  local path = self.address:match '^unix:(.*)$'
  if path then return 'tide+unix:' .. path .. (self.vhost and '?vhost=' .. self.vhost or '') end
  local url = self.address:gsub('^tls:', 'tides://'):gsub('^%f[%d%[]', 'tide://')
  return url .. (self.vhost and '/' .. self.vhost or '')
end

--- A verb of the command line against this broker; gives its output (both
--- streams) and exit status.
---@param verb string
---@param ... string|number
---@return string output, integer status
function Broker:cli(verb, ...)
  local words = { quote(Broker.binary()), verb, '--url', quote(self:url()) }
  for _, word in ipairs { ... } do words[#words + 1] = quote(word) end
  return shell.run(table.concat(words, ' ') .. ' 2>&1 </dev/null')
end

--- End everything of this broker by kill -9 and remove its directory. Harmless
--- at any time and more than once.
function Broker:destroy()
  if not self.guard then return end
  release_connections(self)
  self.guard:close() -- waits until it has done its work
  self.guard = nil
  if self.redis then self.redis:destroy() end
end

return Broker
