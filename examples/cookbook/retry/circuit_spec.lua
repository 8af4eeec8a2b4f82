local tidemq = require "tidemq"

it("circuit lets one job probe while a partner is down", function()
  local engine = assert(tidemq.open())
  local retry = assert(engine:strategy("retry", "circuit"))
  local function fail(partner)
    return retry:decide({ headers = { partner = partner } }, { failures = 1 })
  end
  engine:set_now(1000000)
  for _ = 1, 19 do assert.equal(1000, fail "x") end
  assert.equal(30000, fail "x")
  assert.is_true(fail "x" >= 60000)
  assert.equal(1000, fail "y")
end)
