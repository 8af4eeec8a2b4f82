local tidemq = require "tidemq"

describe("@NAME@", function()
  local engine

  before_each(function() engine = assert(tidemq.open()) end)
  after_each(function() engine:close() end)

  local function connect(address)
    return engine:connect { user = "@NAME@", address = address }
  end

  it("limits the channels", function()
    assert.equal(10, assert(connect "10.0.0.1").limits.max_channels)
  end)

  it("refuses other networks", function()
    local result, reason, file = connect "192.0.2.1"
    assert.is_nil(result)
    assert.equal("not from there", reason)
    assert.equal("connect/@NAME@.lua", file)
  end)
end)
