local tidemq = require "tidemq"

describe("@NAME@", function()
  local engine

  before_each(function() engine = assert(tidemq.open()) end)
  after_each(function() engine:close() end)

  it("waits, then buries", function()
    local retry = assert(engine:strategy("retry", "@NAME@", { delay = "2s", max = 3 }))
    assert.equal(2000, retry:decide({ key = "job" }, { failures = 1 }))
    assert.equal(2000, retry:decide({ key = "job" }, { failures = 2 }))
    assert.equal("bury", retry:decide({ key = "job" }, { failures = 3 }))
    retry:close()
  end)
end)
