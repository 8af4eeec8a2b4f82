local tidemq = require "tidemq"

it("customers bounds the queues of its vhosts, and no others", function()
  local engine = assert(tidemq.open())
  local function options(vhost, given)
    return (engine:declare { kind = "queue", name = "q", vhost = vhost, options = given })
  end
  assert.same({ ["max-length"] = "100000", ttl = "7d" }, options("acme", {}))
  assert.same({ ["max-length"] = "50", ttl = "1h" }, options("acme", { ["max-length"] = "50", ttl = "1h" }))
  assert.same({}, options("/", {}))
end)
