--- Waiting with a deadline, for tests: never for a duration.
local socket = require 'socket'

local M = {}

-- A busy or instrumented machine may ask for more with TIDE_TEST_PATIENCE=3.
M.patience = tonumber(os.getenv 'TIDE_TEST_PATIENCE') or 1

--- How long anything may take before a test gives up, in seconds.
M.DEFAULT = 15

---@param seconds number?
---@return number deadline, a point in time for `M.left`
function M.deadline(seconds)
  return socket.gettime() + (seconds or M.DEFAULT) * M.patience
end

--- The same for what takes its limit as a number.
---@param seconds number?
---@return integer seconds
function M.limit(seconds)
  return math.ceil((seconds or M.DEFAULT) * M.patience)
end

---@param deadline number
---@return number seconds, never negative
function M.left(deadline)
  return math.max(0, deadline - socket.gettime())
end

--- Call `probe` until it returns something true, and return that.
---@generic T
---@param probe fun(): T?
---@param seconds number?
---@return T? nil when the deadline has passed
function M.poll(probe, seconds)
  local deadline = M.deadline(seconds)
  local began = socket.gettime()
  while true do
    local result = probe()
    if result then return result end
    if M.left(deadline) == 0 then return nil end
    -- Many a probe starts a process: what takes long is asked less often, and no later by a twentieth.
    socket.sleep(math.min(0.05, 0.005 + (socket.gettime() - began) / 20))
  end
end

return M
