local tidemq = require "tidemq"

describe("@NAME@", function()
  local engine

  before_each(function() engine = assert(tidemq.open()) end)
  after_each(function() engine:close() end)

  it("says who got the message", function()
    local got = assert(engine:deliver({ headers = { a = "1" } }, { queue = "@NAME@", user = "bob" }))
    assert.equal("give", got.verdict)
    assert.same({ a = "1", ["delivered-to"] = "bob" }, got.headers)
  end)
end)
