local tidemq = require "tidemq"

describe("@NAME@", function()
  local engine

  before_each(function() engine = assert(tidemq.open()) end)
  after_each(function() engine:close() end)

  it("gives a queue a ttl, unless it has one", function()
    local function ttl_of(options)
      return assert(engine:declare { kind = "queue", name = "@NAME@.jobs", options = options }).ttl
    end
    assert.equal("7d", ttl_of {})
    assert.equal("1h", ttl_of { ttl = "1h" })
  end)
end)
