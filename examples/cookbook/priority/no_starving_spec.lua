local tidemq = require "tidemq"

it("no_starving puts premium first, for a minute", function()
  local engine = assert(tidemq.open())
  local ranks = assert(engine:strategy("priority", "no_starving"))
  local function rank(ts, plan) return ranks:rank({ ts = ts, headers = { plan = plan } }, {}) end
  assert.is_true(rank(50000, "premium") < rank(0))
  assert.is_true(rank(70000, "premium") > rank(0))
end)
