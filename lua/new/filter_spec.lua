local tidemq = require "tidemq"

describe("@NAME@", function()
  local engine

  before_each(function() engine = assert(tidemq.open()) end)
  after_each(function() engine:close() end)

  local function publish(headers)
    return engine:filter { exchange = "@NAME@", key = "new", headers = headers }
  end

  it("marks a message", function()
    local msg = assert(publish { customer = "acme" })
    assert.equal("@NAME@", msg.headers["seen-by"])
  end)

  it("refuses a message without a customer", function()
    local msg, reason, code = publish {}
    assert.is_nil(msg)
    assert.matches("'customer' is missing", reason)
    assert.equal("rejected", code)
  end)
end)
