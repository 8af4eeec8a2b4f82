local tidemq = require "tidemq"

it("shed_load refuses what can wait while the queue is long", function()
  local engine = assert(tidemq.open())
  local function publish(priority)
    return engine:filter { exchange = "pictures", key = "k", priority = priority }
  end
  assert(publish(0))
  engine:set_queue("resize", { ready = 10001 })
  assert.is_nil(publish(0))
  assert(publish(5))
end)
