--- Clocks for brokers that a test sets:
---
---   local clock = Clock.new()
---   local broker = Broker.start { env = clock.env }
---   clock:set(-3600) -- the wall clock is an hour behind, for all that began with it
---   clock:pass(3600) -- an hour passes, by every clock
---   clock:destroy()
local shell = require 'support.shell'

---@class Clock
---@field env table<string, string> for Broker.start
local Clock = {}
Clock.__index = Clock

---@return Clock
function Clock.new()
  local self = setmetatable({}, Clock)
  self.dir = shell.make_dir 'tidemq-clock'
  local library, file = self.dir .. '/clock.so', self.dir .. '/ahead'
  assert(os.execute('${CC:-cc} -shared -fPIC -O1 -o ' .. shell.quote(library)
    .. ' tests/integration/support/clock.c'))
  self.file = assert(io.open(file, 'wb'))
  self.file:setvbuf 'no'
  self.ahead, self.passed = 0, 0
  self:set(0)
  self.env = { LD_PRELOAD = library, TIDE_TEST_CLOCK = file }
  return self
end

---@param seconds integer how far it is ahead of the true one
function Clock:set(seconds)
  self.ahead = seconds
  self.file:seek('set', 0)
  self.file:write(string.pack('=i8i8', (self.ahead + self.passed) * 1000, self.passed * 1000))
end

---@param seconds integer
function Clock:pass(seconds)
  self.passed = self.passed + seconds
  self:set(self.ahead)
end

function Clock:destroy()
  self.file:close()
  os.execute('rm -rf ' .. shell.quote(self.dir))
end

return Clock
