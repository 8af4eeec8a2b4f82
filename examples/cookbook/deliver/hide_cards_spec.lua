local tidemq = require "tidemq"

it("hide_cards shows the card to billing alone", function()
  local engine = assert(tidemq.open())
  local order = { headers = { card = "4711", tier = "gold" } }
  local function headers(user) return assert(engine:deliver(order, { queue = "orders", user = user })).headers end
  assert.same({ tier = "gold" }, headers "shop")
  assert.same(order.headers, headers "billing")
end)
