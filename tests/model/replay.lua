--- replay.lua FILE...: run scripts that were kept, and say what comes of them.
package.path = './tests/?.lua;./tests/integration/?.lua;' .. package.path
local run = require 'model.run'
local script = require 'model.script'

local pool, failures = {}, 0
for _, path in ipairs(arg) do
  local window, lines = script.read(path)
  local outcome = run.replay(pool, window, lines)
  if outcome.violation then failures = failures + 1 end
  print(outcome.violation and script.text(window, outcome) or path .. ': as the model says')
  if os.getenv 'LOG' and outcome.log then print(outcome.log) end
end
run.close(pool)
os.exit(failures == 0, true)
