local tidemq = require "tidemq"

it("trial_limits lets our network in, slowly", function()
  local engine = assert(tidemq.open())
  local function enter(vhost, address) return engine:connect { vhost = vhost, address = address } end
  assert.equal(10, assert(enter("trial", "10.1.2.3")).limits.publish_rate)
  local _, reason = enter("trial", "203.0.113.9")
  assert.matches("our own network", reason)
  assert(enter("/", "203.0.113.9"))
end)
