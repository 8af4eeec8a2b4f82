--- A proxy between a broker and its Redis that numbers every command but the holder's
--- beat (HGET {tide}:holder), and does something to one of them:
---
---   local redis = Redis.start()
---   local proxy = Proxy.start(redis)
---   local broker = Broker.start { args = { '--store', proxy.url } }
---   proxy:arm(17, 'before', 'hold')          -- at the 17th command from now on
---   c:send 'PUB - jobs 5\r\nhello\r\n'
---   local n, command = proxy:wait_held()     -- 17, 'HSET tide:{//jobs#0}:msg 68…'
---   redis:cli('CONFIG', 'SET', 'maxmemory', '1')
---   proxy:go()                               -- or proxy:cut()
---
--- Before the point takes effect, all commands ahead of it have been carried out and
--- answered, and the broker has the answers. With 'before' Redis has not seen the command;
--- with 'after' it has carried it out, and the broker has not got the answer. Nothing
--- passes at the point, on any connection. What follows is one of
---
---   'hold'  wait for go() or cut()
---   'go'    go on
---   'cut'   close every connection; what was on its way is lost. New ones are accepted
---
--- A command of the shell may be carried out at the point, before that:
---
---   proxy:arm(17, 'after', 'cut', 'kill -9 ' .. broker:pid())
---
--- Or the answer of a command is replaced, as a node of a Redis Cluster would, and nothing stops:
---
---   proxy:bounce(17, 'instead', 'TRYAGAIN later')   -- 'carried': Redis has carried it out nevertheless
---
--- A point is used once, and there is one at a time. The process ends with the test.
local Client = require 'support.client'
local lfs = require 'lfs'
local shell = require 'support.shell'
local wait = require 'support.wait'

---@class Proxy
---@field url string for --store
---@field dir string
local Proxy = {}
Proxy.__index = Proxy

local quote = shell.quote
local root = shell.line 'pwd'

---@param redis Redis
---@param port integer? of loopback, where it listens instead of at a Unix socket
---@return Proxy
function Proxy.start(redis, port)
  local self = setmetatable({}, Proxy)
  self.dir = shell.make_dir 'tidemq-proxy'
  local script = ('TIDE_TEST_DIR=%s exec bash %s/tests/integration/support/process.sh '):format(
    quote(self.dir), quote(root))
  self.guard = assert(io.popen(script .. 'guard', 'w'))
  local path, control = self.dir .. '/proxy.sock', self.dir .. '/control.sock'
  self.url = port and 'redis://127.0.0.1:' .. port or 'redis+unix:' .. path
  local words = { 'lua5.4', root .. '/tests/chaos/support/proxy_process.lua', port or path, redis.path, control }
  for i, word in ipairs(words) do words[i] = quote(word) end
  shell.write_file(self.dir .. '/command', 'exec ' .. table.concat(words, ' ') .. '\n')
  assert(os.execute(script .. 'run'))
  self.control = assert(wait.poll(function()
    if not lfs.attributes(control) then return nil end
    local ok, client = pcall(Client.connect, 'unix:' .. control)
    return ok and client
  end), 'the proxy does not start')
  self.control.describe = function() return '-- the proxy said:\n' .. (shell.read_file(self.dir .. '/stderr') or '') end
  return self
end

local function ask(self, line)
  local answer = self.control:request(line)
  assert(answer ~= 'busy', 'the proxy is at a point: go() or cut() first')
  return answer
end

--- Do something at the n-th command from now on.
---@param n integer
---@param when 'before'|'after'
---@param what 'hold'|'go'|'cut'
---@param run string? a command of the shell, in one line
function Proxy:arm(n, when, what, run)
  assert(when == 'before' or when == 'after', "when is 'before' or 'after'")
  assert(what == 'hold' or what == 'go' or what == 'cut', "what is 'hold', 'go' or 'cut'")
  ask(self, ('arm %d %s %s %s'):format(n, when, what, run or ''))
end

--- Replace the answer to the n-th command from now on. A command that no cluster bounces is answered as always.
---@param n integer
---@param kind 'instead'|'carried'
---@param text string an error, without its `-`
function Proxy:bounce(n, kind, text)
  assert(kind == 'instead' or kind == 'carried', "kind is 'instead' or 'carried'")
  ask(self, ('bounce %d %s %s'):format(n, kind, text))
end

--- Forget a point that has not been reached. One whose shell command runs just now takes effect first.
function Proxy:disarm()
  local is_done = wait.poll(function() return self.control:request 'disarm' ~= 'busy' end)
  assert(is_done, 'the proxy is at a point: go() or cut() first')
end

--- How many commands the broker has sent, over all its connections.
---@return integer
function Proxy:count()
  return math.tointeger(tonumber(ask(self, 'state'):match '^%l+ (%d+)'))
end

--- 'idle': no point, or it is over. 'armed': not reached. 'stopping': reached, not in
--- effect. 'held': waits for go() or cut(). The command of the point, if it was reached.
---@return string state, string? command
function Proxy:state()
  local state, command = ask(self, 'state'):match '^(%l+) %d+ ?%d* ?(.*)$'
  return state, command ~= '' and command or nil
end

--- Wait until a point with 'hold' is in effect.
---@param seconds number?
---@return integer n of the command, as `count` counts; string its first words
function Proxy:wait_held(seconds)
  local n, command
  local is_held = wait.poll(function()
    n, command = ask(self, 'state'):match '^held %d+ (%d+) (.*)$'
    return n
  end, seconds)
  if not is_held then error('the point was not reached: ' .. ask(self, 'state'), 2) end
  return math.tointeger(tonumber(n)), command
end

function Proxy:go() ask(self, 'go') end

--- Close every connection, at a point or without one.
function Proxy:cut() ask(self, 'cut') end

--- Keep each answer of Redis back for so long, as a slow disk does.
---@param ms number 0: not any more
function Proxy:delay(ms) ask(self, 'delay ' .. ms) end

--- To its process: after STOP nothing passes, and no connection ends.
---@param name string a signal
function Proxy:signal(name)
  assert(os.execute(('kill -%s $(cat %s/pid)'):format(name, quote(self.dir))))
end

--- Begin to note commands, or begin anew; gives those that were noted so far.
---@return string[] number and first words of each
function Proxy:trace()
  local path = self.dir .. '/trace'
  ask(self, 'trace ' .. path)
  local lines = {}
  for line in shell.read_file(path):gmatch '[^\n]+' do lines[#lines + 1] = line end
  return lines
end

--- End it and remove its directory; harmless more than once.
function Proxy:destroy()
  if not self.guard then return end
  self.control:close()
  self.guard:close()
  self.guard = nil
end

return Proxy
