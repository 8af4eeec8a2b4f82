local tidemq = require "tidemq"

it("shortest_first prefers short jobs", function()
  local engine = assert(tidemq.open())
  local ranks = assert(engine:strategy("priority", "shortest_first"))
  local function rank(ts, minutes) return ranks:rank({ ts = ts, headers = { minutes = minutes } }, {}) end
  assert.is_true(rank(1000, "2") < rank(0, "90"))
  assert.is_true(rank(3600000 * 20, "2") > rank(0, "90"))
  assert.equal(rank(0, "60"), rank(0))
end)
