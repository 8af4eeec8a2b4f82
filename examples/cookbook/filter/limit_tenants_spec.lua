local tidemq = require "tidemq"

it("limit_tenants counts each tenant by itself", function()
  local engine = assert(tidemq.open())
  engine:set_now(1000000)
  local function publish(tenant)
    return engine:filter { exchange = "api", key = "k", headers = { tenant = tenant } }
  end
  for _ = 1, 100 do assert(publish "a") end
  assert.matches("faster than 50/s", select(2, publish "a"))
  assert(publish "b")
  engine:set_now(1001000)
  assert(publish "a")
end)
