--- Tests that need packages which `make test` does not install by itself: without them they are pending.
---
---   local describe = needs.browser(describe)
---   needs.client(it, '/usr/bin/perl -MNet::Stomp -e 1')('Net::Stomp of Perl', function() … end)
---   needs.redis(it, 7, 2)('…', function() … end)    -- or a newer one, or a Valkey
---
--- What is missing is named by the target that brings it, which tools/run_tests.sh looks for. There,
--- with CI=true, such a test is a failed one.
local busted = require 'busted'
local shell = require 'support.shell'

local M = {}

---@param group string of tools/deps.sh
---@param block function `describe` or `it`
---@param probe string a command that succeeds where the packages are
---@return function block, or what makes one pending test of it
function M.group(group, block, probe)
  local _, status = shell.run(('{ %s; } >/dev/null 2>&1 </dev/null'):format(probe))
  if status == 0 then return block end
  return function(name) busted.pending(('%s (needs packages: make deps-%s)'):format(name, group)) end
end

function M.browser(block) return M.group('test-browser', block, 'command -v chromium && command -v chromedriver') end

function M.client(block, probe) return M.group('test-clients', block, probe) end

--- What no package of this Debian may have: it is pending with CI=true too.
---@param block function `describe` or `it`
---@param major integer
---@param minor integer
---@return function
function M.redis(block, major, minor)
  local said = shell.line 'redis-server --version'
  local has_major, has_minor = said:match ' v=(%d+)%.(%d+)'
  if has_major * 1000 + has_minor >= major * 1000 + minor then return block end
  return function(name) busted.pending(('%s (needs Redis %d.%d, this is %s)'):format(name, major, minor, said)) end
end

return M
