local tidemq = require "tidemq"

describe("@NAME@", function()
  local engine

  before_each(function() engine = assert(tidemq.open()) end)
  after_each(function() engine:close() end)

  it("serves high priorities first, until the others have waited", function()
    local priority = assert(engine:strategy("priority", "@NAME@", { step = "1m" }))
    local function rank(level, ts)
      return priority:rank({ priority = level, ts = ts }, { ready = 10 })
    end
    assert.is_true(rank(5, 0) < rank(4, 0))
    assert.is_true(rank(4, 0) < rank(5, 61000))
    priority:close()
  end)
end)
