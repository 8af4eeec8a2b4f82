local tidemq = require "tidemq"

it("morning_report asks at seven in Berlin, summer and winter", function()
  local engine = assert(tidemq.open())
  local friday <const> = 1784246400000 -- 2026-07-17 00:00 UTC
  local seven = engine:next_run("morning_report", friday)
  assert.equal(friday + 5 * 3600000, seven) -- UTC+2
  assert.equal("2026-07-16", engine:run("morning_report", seven)[1].headers.day)
  assert.equal(seven + 3 * 86400000, engine:next_run("morning_report", seven)) -- Monday
end)
