--- A disk that fails, for brokers:
---
---   local fault = DiskFault.new()
---   local broker = Broker.start { env = fault:kill '@DIR@/rules/a.lua' } -- ended instead of a rename to it
---   local broker = Broker.start { env = fault:full '@DIR@/rules/' } -- no file is created there
---   fault:destroy()
local shell = require 'support.shell'

---@class DiskFault
local DiskFault = {}
DiskFault.__index = DiskFault

---@return DiskFault
function DiskFault.new()
  local self = setmetatable({}, DiskFault)
  self.dir = shell.make_dir 'tidemq-disk'
  self.library = self.dir .. '/disk_fault.so'
  assert(os.execute('${CC:-cc} -shared -fPIC -O1 -o ' .. shell.quote(self.library)
    .. ' tests/integration/support/disk_fault.c -ldl'))
  return self
end

local function env(self, fault)
  -- A sanitized broker does not mind then that another library comes before AddressSanitizer.
  local options = (os.getenv 'ASAN_OPTIONS' or '') .. ':verify_asan_link_order=0'
  return { LD_PRELOAD = self.library, TIDE_TEST_DISK = fault, ASAN_OPTIONS = options }
end

---@param path string
---@return table<string, string> env for Broker.start
function DiskFault:kill(path) return env(self, 'kill ' .. path) end

---@param dir string
---@return table<string, string> env for Broker.start
function DiskFault:full(dir) return env(self, 'full ' .. dir) end

function DiskFault:destroy()
  os.execute('rm -rf ' .. shell.quote(self.dir))
end

return DiskFault
