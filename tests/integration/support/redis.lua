--- A redis-server of the test's own, for `--store redis+unix:PATH`:
---
---   local redis = Redis.start { '--maxmemory', '20mb' }
---   local broker = Broker.start { args = { '--store', redis.url } }
---   redis:cli('CONFIG', 'SET', 'maxmemory', '0')
---   redis:destroy()
---
--- It is ended with the test process, however that ends.
local shell = require 'support.shell'
local socket = require 'socket'
local wait = require 'support.wait'

---@class Redis
---@field dir string
---@field url string for --store
---@field path string of its socket
---@field tls_url string? for --store, with TLS
---@field db integer? that `cli` asks; default: 0
local Redis = {}
Redis.__index = Redis

local quote = shell.quote

--- redis-server takes no port 0: one that was free a moment ago.
---@return integer
function Redis.free_port()
  local server = assert(socket.bind('127.0.0.1', 0))
  local _, port = server:getsockname()
  server:close()
  return port
end

local root = shell.line 'pwd'

--- With `certs` it listens with TLS as well, and `tls_url` is where. It asks for a certificate when they have one
--- of a `client`.
---@param args string[]? more arguments for redis-server
---@param certs Certs?
---@return Redis
function Redis.start(args, certs)
  local self = setmetatable({}, Redis)
  self.dir = shell.make_dir 'tidemq-redis'
  self.script = ('TIDE_TEST_DIR=%s exec bash %s/tests/integration/support/process.sh '):format(
    quote(self.dir), quote(root))
  self.guard = assert(io.popen(self.script .. 'guard', 'w'))
  self.path = self.dir .. '/redis.sock'
  self.url = 'redis+unix:' .. self.path
  local words = { 'redis-server', '--port', 0, '--unixsocket', self.path, '--dir', self.dir,
    '--appendonly', 'yes', '--appendfsync', 'no', '--save', '' }
  if certs then
    local port = Redis.free_port()
    self.tls_url = ('rediss://localhost:%d?ca=%s'):format(port, certs:cert 'ca')
    for _, word in ipairs { '--tls-port', port, '--tls-cert-file', certs:cert 'server', '--tls-key-file',
      certs:key 'server', '--tls-ca-cert-file', certs:cert 'ca', '--bind', '127.0.0.1', '--tls-auth-clients',
      shell.read_file(certs:cert 'client') and 'yes' or 'no' } do
      words[#words + 1] = word
    end
  end
  for _, word in ipairs(args or {}) do words[#words + 1] = word end
  for i, word in ipairs(words) do words[i] = quote(word) end
  shell.write_file(self.dir .. '/command', 'exec ' .. table.concat(words, ' ') .. '\n')
  self:run()
  return self
end

--- Start it again, after it has ended.
function Redis:run()
  assert(os.execute(self.script .. 'run'))
  assert(wait.poll(function() return self:cli 'PING' == 'PONG' end), 'redis-server does not start')
end

--- What redis-cli prints; what it has by then, from a Redis that does not answer in time.
---@param ... string|number
---@return string
function Redis:cli(...)
  local words = { 'timeout', wait.limit(20), 'redis-cli', '-n', self.db or 0, '-s', quote(self.path) }
  for _, word in ipairs { ... } do words[#words + 1] = quote(word) end
  return shell.line(table.concat(words, ' ') .. ' 2>&1')
end

---@return integer
function Redis:pid()
  return assert(math.tointeger(tonumber(self:cli('INFO', 'server'):match 'process_id:(%d+)')))
end

---@param name string a signal
---@param pid integer? of a Redis that does not answer
function Redis:signal(name, pid)
  assert(os.execute(('kill -%s %d'):format(name, pid or self:pid())))
end

--- End it and remove its directory; harmless more than once.
function Redis:destroy()
  if not self.guard then return end
  self.guard:close()
  self.guard = nil
end

return Redis
