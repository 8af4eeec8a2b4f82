local tidemq = require "tidemq"

describe("@NAME@", function()
  local engine

  before_each(function() engine = assert(tidemq.open()) end)
  after_each(function() engine:close() end)

  it("gives a customer one shard", function()
    local sharding = assert(engine:strategy("sharding", "@NAME@", { by = "customer" }))
    local function pick(customer, key)
      return sharding:pick({ key = key, headers = { customer = customer } }, 8)
    end
    assert.equal(pick("a", "k"), pick("a", "other"))
    assert.is_true(pick("a", "k") >= 0 and pick("a", "k") < 8)
    sharding:close()
  end)
end)
