--- A Lua with bugs, for brokers whose rules hit them:
---
---   local bug = LuaBug.new()
---   local broker = Broker.start { env = bug.env }
---   broker:write_rule('filter/crash.lua', ...) -- ends every process that loads it
---   bug:destroy()
---
--- `late_crash.lua` ends a broker alone, and no trial. `hang.lua` never ends.
local shell = require 'support.shell'

---@class LuaBug
---@field env table<string, string> for Broker.start
local LuaBug = {}
LuaBug.__index = LuaBug

---@return LuaBug
function LuaBug.new()
  local self = setmetatable({}, LuaBug)
  self.dir = shell.make_dir 'tidemq-lua-bug'
  local library = self.dir .. '/lua_bug.so'
  assert(os.execute('${CC:-cc} $(pkg-config --cflags lua5.4) -shared -fPIC -O1 -o ' .. shell.quote(library)
    .. ' tests/integration/support/lua_bug.c -ldl'))
  self.file = self.dir .. '/trials'
  self.env = { LD_PRELOAD = library, TIDE_TEST_TRIALS = self.file }
  return self
end

--- How often rules were tried in another process.
---@return integer
function LuaBug:trials()
  return #(shell.read_file(self.file) or '')
end

function LuaBug:destroy()
  os.execute('rm -rf ' .. shell.quote(self.dir))
end

return LuaBug
