local tidemq = require "tidemq"

it("no_personal_data copies what analysts may see", function()
  local engine = assert(tidemq.open())
  local m = assert(engine:filter { exchange = "signups", key = "k",
    payload = '{"email":"ann@example.org","country":"NZ","plan":"pro","phone":"1"}' })
  local copy = m.copies[1]
  assert.equal("analytics", copy.exchange)
  assert.matches('^{"country":"NZ","person":"%x+","plan":"pro"}$', copy.payload)
  assert.matches("ann@example.org", m.payload)
end)
