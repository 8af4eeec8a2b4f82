local tidemq = require "tidemq"

it("next_step goes on after an ack alone", function()
  local engine = assert(tidemq.open())
  local function settle(queue, event)
    return assert(engine:settled({ payload = "p1" }, { queue = queue, event = event }))
  end
  local copy = settle("pack", "ack")[1]
  assert.same({ "-", "label", "p1" }, { copy.exchange, copy.key, copy.payload })
  assert.equal("ship", settle("label", "ack")[1].key)
  assert.same({}, settle("pack", "retry"))
  assert.same({}, settle("ship", "ack"))
end)
