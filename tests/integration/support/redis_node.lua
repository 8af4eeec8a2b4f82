--- One redis-server of several, at a TCP port of loopback: a node of a Redis Cluster, a master or replica
--- under Sentinel, a Sentinel. `support.cluster` makes them.
---
---   node:command('SET', 'k', 'v')      -- 'OK'; nil and the text for an error, or when there is no answer
---   node:kill9()  node:restart()  node:stop()  node:cont()
local shell = require 'support.shell'
local socket = require 'socket'
local wait = require 'support.wait'

---@class RedisNode
---@field dir string
---@field host string
---@field port integer
---@field address string HOST:PORT
---@field id string? of a cluster's node
---@field tls_port integer? of a cluster's node with TLS
local Node = {}
Node.__index = Node

local quote = shell.quote
local root = shell.line 'pwd'

-- A port that a node has again after a restart must not be one that the kernel gives to others meanwhile:
-- those are above 32767.
local FIRST_PORT, LAST_PORT = 25000, 32000

local random = assert(io.open '/dev/urandom')
local given = {}

--- A port that nobody listens on, and that this process has given to nobody.
---@return integer
function Node.free_port()
  while true do
    local port = FIRST_PORT + string.unpack('<I4', random:read(4)) % (LAST_PORT - FIRST_PORT)
    local server = not given[port] and socket.bind('127.0.0.1', port)
    if server then
      server:close()
      given[port] = true
      return port
    end
  end
end

--- What ends all processes below `dir`, and removes it, when it is closed or the test process ends.
---@param dir string
---@return file*
function Node.guard(dir)
  return assert(io.popen(('TIDE_TEST_DIR=%s exec bash %s/tests/integration/support/process.sh guard'):format(
    quote(dir), quote(root)), 'w'))
end

--- A node that is not started yet.
---@param dir string a directory of its own, below one with a guard
---@param words (string|number)[] for redis-server
---@param port integer
---@param host string? default: 127.0.0.1
---@return RedisNode
function Node.new(dir, words, port, host)
  host = host or '127.0.0.1'
  assert(os.execute('mkdir -p ' .. quote(dir)))
  return setmetatable({ dir = dir, words = words, host = host, port = port, address = host .. ':' .. port }, Node)
end

--- Start the process, and do not wait for it.
function Node:launch()
  self:forget()
  local words = { 'exec', 'redis-server' }
  for _, word in ipairs(self.words) do words[#words + 1] = quote(word) end
  shell.write_file(self.dir .. '/command',
    ('cd %s && %s\n'):format(quote(self.dir), table.concat(words, ' ')))
  for _, name in ipairs { 'pid', 'exit' } do os.remove(self.dir .. '/' .. name) end
  assert(os.execute(('TIDE_TEST_DIR=%s exec bash %s/tests/integration/support/process.sh run'):format(
    quote(self.dir), quote(root))))
end

--- Wait until it answers PING.
function Node:expect_up()
  if wait.poll(function() return self:command 'PING' == 'PONG' end) then return end
  error(('redis-server at %s does not start: %s'):format(self.address,
    (shell.read_file(self.dir .. '/stdout') or ''):sub(-2000)), 2)
end

function Node:restart()
  self:launch()
  self:expect_up()
end

-- ---- commands ------------------------------------------------------------

--- The connection is not used again.
function Node:forget()
  if self.sock then self.sock:close() end
  self.sock = nil
end

local function read_reply(sock)
  local line, err = sock:receive '*l'
  if not line then return nil, err, true end
  local kind, rest = line:sub(1, 1), line:sub(2)
  if kind == '+' then return rest end
  if kind == '-' then return nil, rest end
  if kind == ':' then return math.tointeger(tonumber(rest)) end
  local n = tonumber(rest)
  if n < 0 then return false end
  if kind == '$' then
    local text
    text, err = sock:receive(n + 2)
    if not text then return nil, err, true end
    return text:sub(1, -3)
  end
  local list = {}
  for i = 1, n do
    local value, why, is_lost = read_reply(sock)
    if is_lost then return nil, why, true end
    list[i] = value == nil and why or value
  end
  return list
end

local function connect(self)
  local sock = socket.tcp()
  sock:settimeout(self.timeout or wait.limit(30))
  local ok, err = sock:connect(self.host, self.port)
  if not ok then
    sock:close()
    return nil, err
  end
  sock:setoption('tcp-nodelay', true)
  return sock
end

--- What Redis answers: a text, an integer, a list, false for null. nil and the text for an error, or when it
--- is down, or stopped, or does not answer in half a minute.
---@param ... string|number
---@return any reply, string? err
function Node:command(...)
  local words = { ... }
  for i, word in ipairs(words) do
    word = tostring(word)
    words[i] = ('$%d\r\n%s\r\n'):format(#word, word)
  end
  local text = ('*%d\r\n%s'):format(#words, table.concat(words))
  -- Of a node that was started again the old connection has ended, which the first use shows.
  local reply, err, is_lost
  for _ = 1, self.sock and 2 or 1 do
    if not self.sock then self.sock, err = connect(self) end
    if not self.sock then return nil, err end
    local sent
    sent, err = self.sock:send(text)
    if sent then reply, err, is_lost = read_reply(self.sock) else is_lost = true end
    if not is_lost then return reply, err end
    self:forget()
    if err ~= 'closed' then break end
  end
  return nil, err
end

--- As `command`, and an error ends the test.
---@param ... string|number
---@return any
function Node:ok(...)
  local reply, err = self:command(...)
  if err then error(('%s at %s: %s'):format(table.concat({ ... }, ' '), self.address, err), 2) end
  return reply
end

--- One field of INFO.
---@param section string
---@param field string
---@return string? nil when it does not answer
function Node:info(section, field)
  local text = self:command('INFO', section)
  return text and text:match('\n' .. field .. ':([^\r\n]*)') or nil
end

-- ---- the process ---------------------------------------------------------

---@return integer
function Node:pid()
  return assert(math.tointeger(tonumber(wait.poll(function() return shell.read_file(self.dir .. '/pid') end))))
end

--- Until its end has been noted: a note of an earlier process must not be taken for one of a later.
---@return boolean
function Node:is_running() return shell.read_file(self.dir .. '/exit') == nil end

---@param name string a signal
function Node:signal(name) os.execute(('kill -%s %d 2>/dev/null'):format(name, self:pid())) end

--- kill -9, and wait for its end; harmless when it has ended.
function Node:kill9()
  self:signal 'KILL'
  assert(wait.poll(function() return not self:is_running() end), 'a node survives kill -9')
  self:forget()
end

--- An orderly end, with everything on disk.
function Node:terminate()
  self:signal 'TERM'
  assert(wait.poll(function() return not self:is_running() end), 'a node does not end after SIGTERM')
  self:forget()
end

--- SIGSTOP: connections stay open, and nothing is answered.
function Node:stop()
  self:signal 'STOP'
  self.is_stopped = true
end

--- SIGCONT; harmless when it goes.
function Node:cont()
  self:signal 'CONT'
  self.is_stopped = nil
end

return Node
