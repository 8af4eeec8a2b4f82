--- The verbs of the command line, on a broker that runs.
local Broker = require 'support.broker'
local assert = require 'luassert'
local shell = require 'support.shell'

local M = {}

--- A verb that must succeed; gives its output.
---@param broker Broker
---@return string
function M.tide(broker, ...)
  local output, status = broker:cli(...)
  assert.equal(0, status, output)
  return output
end

--- A verb that must end with the status and one line that matches.
---@param broker Broker
---@param status integer
---@param pattern string
function M.refused(broker, status, pattern, ...)
  local output, got = broker:cli(...)
  assert.equal(status, got, output)
  assert.matches(pattern, output)
  assert.equal(1, select(2, output:gsub('\n', '\n')), output)
end

--- A whole command, for pipes; `tidemq` in it is the program.
---@param broker Broker
---@param command string
function M.run(broker, command)
  return shell.run(("export TIDEMQ_URL='%s'; tidemq() { '%s' \"$@\"; }; %s"):format(
    broker:url(), Broker.binary(), command))
end

return M
