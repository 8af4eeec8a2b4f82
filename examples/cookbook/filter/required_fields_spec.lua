local tidemq = require "tidemq"

describe("required_fields", function()
  local engine = assert(tidemq.open())

  local function publish(payload)
    return engine:filter { exchange = "orders", key = "new", payload = payload }
  end

  it("takes a whole order", function()
    assert(publish '{"customer":"c1","total":5,"items":[{"sku":"a"}]}')
  end)

  it("says what is missing", function()
    local _, reason = publish '{"customer":"c1","total":5,"items":[]}'
    assert.matches("at least one of 'items'", reason)
    _, reason = publish '{"customer":1}'
    assert.matches("'customer', a text", reason)
    _, reason = publish 'no JSON'
    assert.matches("is a JSON object", reason)
  end)
end)
