local tidemq = require "tidemq"

describe("@NAME@", function()
  local engine

  before_each(function() engine = assert(tidemq.open()) end)
  after_each(function() engine:close() end)

  local function settle(event)
    return assert(engine:settled({ key = "job", payload = "hi" }, { queue = "@NAME@", event = event }))
  end

  it("tells of a dead letter", function()
    local copies = settle "dead-letter"
    assert.same({ 1, "@NAME@.dead", "hi" }, { #copies, copies[1].key, copies[1].payload })
  end)

  it("tells of nothing else", function()
    assert.same({}, settle "ack")
  end)
end)
