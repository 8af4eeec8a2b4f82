local tidemq = require "tidemq"

describe("@NAME@", function()
  local engine

  before_each(function() engine = assert(tidemq.open()) end)
  after_each(function() engine:close() end)

  it("takes keys that begin like the pattern", function()
    local index = assert(engine:index("@NAME@"))
    assert(index:bind("orders.", 1))
    assert.same({ 1 }, index:route { key = "orders.new" })
    assert.same({}, index:route { key = "users.new" })
    assert(index:unbind("orders.", 1))
    assert.same({}, index:route { key = "orders.new" })
    index:close()
  end)
end)
