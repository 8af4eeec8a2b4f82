local tidemq = require "tidemq"

describe("@NAME@", function()
  local engine

  before_each(function() engine = assert(tidemq.open()) end)
  after_each(function() engine:close() end)

  it("runs at eight on a weekday", function()
    local saturday, hour = 1774656000000, 3600000 -- 2026-03-28, 0:00 UTC
    local monday = saturday + (48 + 8) * hour
    assert.equal(monday, engine:next_run("@NAME@", saturday))
    local published = assert(engine:run("@NAME@", monday))
    assert.equal(1, #published)
    assert.same({ "@NAME@", tostring(monday) }, { published[1].key, published[1].payload })
  end)
end)
