--- model.lua: random scripts against the model of the specification, for $TIME (default 60s),
--- beginning with $SEED. A script that fails is shrunk, printed and kept in tests/model/found/.
package.path = './tests/?.lua;./tests/integration/?.lua;' .. package.path
local generate = require 'model.generate'
local run = require 'model.run'
local script = require 'model.script'
local shrink = require 'model.shrink'

local LENGTH = tonumber(os.getenv 'LENGTH') or 80
local PATIENT = run.settle_seconds
local SHRINK = 60 -- seconds

local n, unit = (os.getenv 'TIME' or '60s'):match '^(%d+)([smh]?)$'
local ends = os.time() + n * ({ [''] = 1, s = 1, m = 60, h = 3600 })[unit]
local seed = tonumber(os.getenv 'SEED') or os.time() % 1000000
local pool, runs, steps, failures = {}, 0, 0, 0

repeat
  local window = generate.window(seed)
  local outcome = run.run(pool, window, generate.script(seed, LENGTH))
  runs, steps = runs + 1, steps + #outcome.done
  if outcome.violation then
    failures = failures + 1
    print(('SEED=%d: %s'):format(seed, outcome.violation))
    print((outcome.log or ''):sub(-2000))
    io.stdout:flush()
    outcome = shrink.shrink(pool, window, outcome, SHRINK)
    run.settle_seconds = PATIENT
    local path = ('%s/%d.txt'):format(os.getenv 'FOUND' or 'tests/model/found', seed)
    script.write(path, window, outcome)
    print(script.text(window, outcome))
    print('kept in ' .. path)
    io.stdout:flush()
  end
  seed = seed + 1
until os.time() >= ends or os.getenv 'ONCE'

run.close(pool)
print(('%d scripts, %d steps, %d failures; the next seed is %d'):format(runs, steps, failures, seed))
os.exit(failures == 0 and runs > 0, true)
