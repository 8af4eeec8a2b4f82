local tidemq = require "tidemq"

it("by_reason sorts what has failed for good", function()
  local engine = assert(tidemq.open())
  local retry = assert(engine:strategy("retry", "by_reason"))
  assert.equal(5000, retry:decide({}, { failures = 2, reason = "timeout" }))
  local action, more = retry:decide({}, { failures = 3, reason = "timeout" })
  assert.same({ "dead-letter", "too-slow" }, { action, more.key })
  assert.equal("refused", select(2, retry:decide({}, { failures = 3, reason = "nack" })).key)
end)
