--- Takes lines away from a script that fails, as long as it still fails.
local run = require 'model.run'

local M = {}

local SETTLE = 1 -- seconds: most of the runs fail only after it

local function without(lines, first, last)
  local rest = {}
  for i, line in ipairs(lines) do
    if i < first or i > last then rest[#rest + 1] = line end
  end
  return rest
end

--- The kind of a violation: the same without the names of messages and numbers.
local function kind(violation)
  return (violation:match '^[^\n]*':gsub('%x%x%x%x%x%x%x%x+', 'ID'):gsub('%d+', 'N'))
end

---@param pool table brokers, see run.lua
---@param window integer
---@param outcome Outcome of the script that fails
---@param seconds number after which it gives up
---@return Outcome the smallest that was found
function M.shrink(pool, window, outcome, seconds)
  local ends, wanted = os.time() + seconds, kind(outcome.violation)
  run.settle_seconds = SETTLE
  local size = #outcome.done // 2
  while size >= 1 do
    local at, is_smaller = #outcome.done - size + 1, false
    while at + size > 1 do
      if os.time() > ends then return outcome end
      local again = run.replay(pool, window, without(outcome.done, math.max(at, 1), at + size - 1))
      if again.violation and kind(again.violation) == wanted then
        outcome, is_smaller = again, true
      end
      at = math.min(at - size, #outcome.done - size + 1)
    end
    if not is_smaller or size > 1 then size = size // 2 end
  end
  return outcome
end

return M
