--- The file of a script: comments, the window, its lines, and the session that it was as comments.
local shell = require 'support.shell'

local M = {}

---@param window integer
---@param outcome Outcome
---@return string
function M.text(window, outcome)
  local lines = {}
  for line in outcome.violation:gmatch '[^\n]+' do lines[#lines + 1] = '# ' .. line end
  lines[#lines + 1] = 'window ' .. window
  table.move(outcome.done, 1, #outcome.done, #lines + 1, lines)
  lines[#lines + 1] = '# the session:'
  for _, line in ipairs(outcome.trace) do lines[#lines + 1] = '#   ' .. line end
  return table.concat(lines, '\n') .. '\n'
end

function M.write(path, window, outcome)
  shell.write_file(path, M.text(window, outcome))
end

---@param path string
---@return integer window, string[] lines
function M.read(path)
  local window, lines
  for line in shell.read_file(path):gmatch '[^\n]+' do
    if line:find '^window ' then
      window, lines = math.tointeger(tonumber(line:match '%d+')), {}
    elseif line:sub(1, 1) ~= '#' then
      lines[#lines + 1] = line
    end
  end
  return window, lines
end

return M
