local tidemq = require "tidemq"

it("escalate tells the people on duty once, after the third failure", function()
  local engine = assert(tidemq.open())
  local retry = assert(engine:strategy("retry", "escalate"))
  local function fail(failures) return retry:decide({}, { failures = failures, reason = "nack" }) end
  local delay, more = fail(2)
  assert.equal(4000, delay)
  assert.equal("nack", more.msg.headers["last-failure"])
  assert.same({}, more.copies)
  delay, more = fail(3)
  assert.equal(8000, delay)
  assert.equal("on-duty", more.copies[1].key)
  assert.equal(600000, (fail(19)))
end)
