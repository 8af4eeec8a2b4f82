local tidemq = require "tidemq"

describe("working_hours", function()
  local engine = assert(tidemq.open())

  --- The delay of a message at that time (UTC) for a receiver in Tokyo, nine hours ahead.
  local function delay_at(hour)
    engine:set_now(hour * 3600000)
    return assert(engine:filter { exchange = "sms", key = "k", headers = { zone = "Asia/Tokyo" } }).delay
  end

  it("lets a message pass by day", function()
    assert.equal(0, delay_at(0)) -- 9:00
    assert.equal(0, delay_at(10.9)) -- 19:54
  end)

  it("holds it until eight", function()
    assert.equal(11 * 3600000, delay_at(12)) -- 21:00
    assert.equal(5 * 3600000, delay_at(18)) -- 3:00
  end)

  it("refuses zones that do not exist", function()
    local _, reason = engine:filter { exchange = "sms", key = "k", headers = { zone = "Mars" } }
    assert.matches("no time zone 'Mars'", reason)
  end)
end)
