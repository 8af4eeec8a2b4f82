local tidemq = require "tidemq"

it("canary_service sends about 5 % of the customers on, the same ones each time", function()
  local engine = assert(tidemq.open())
  local function exchange_of(customer)
    return assert(engine:filter { exchange = "payments", key = "k", headers = { customer = customer } }).exchange
  end
  local count = 0
  for i = 1, 2000 do
    local exchange = exchange_of("c" .. i)
    assert.equal(exchange, exchange_of("c" .. i))
    count = count + (exchange == "payments-next" and 1 or 0)
  end
  assert.is_true(count > 60 and count < 140)
end)
