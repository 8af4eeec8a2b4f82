local tidemq = require "tidemq"

describe("@NAME@", function()
  local engine

  before_each(function() engine = assert(tidemq.open()) end)
  after_each(function() engine:close() end)

  local function ask(user, name)
    return engine:authorize({ name = user }, "read", { kind = "queue", name = name })
  end

  it("keeps what is another's", function()
    local verdict, reason, file = ask("bob", "@NAME@.eve.jobs")
    assert.equal("refuse", verdict)
    assert.matches("belongs to eve", reason)
    assert.equal("auth/@NAME@.lua", file)
  end)

  it("leaves the rest to others", function()
    local _, _, file = ask("eve", "@NAME@.eve.jobs")
    assert.not_equal("auth/@NAME@.lua", file)
  end)
end)
