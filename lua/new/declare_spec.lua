local tidemq = require "tidemq"

describe("@NAME@", function()
  it("loads", function()
    local engine = assert(tidemq.open())
    engine:close()
  end)
end)
