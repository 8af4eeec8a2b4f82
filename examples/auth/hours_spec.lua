local tidemq = require "tidemq"

local HOUR_MS <const>, DAY_MS <const> = 3600000, 86400000
local MONDAY_MS <const> = 20717 * DAY_MS -- 2026-09-21, 0:00 UTC

describe("business hours", function()
  local engine

  before_each(function() engine = assert(tidemq.open()) end)
  after_each(function() engine:close() end)

  local function ask(ms, action, user)
    engine:set_now(ms)
    return engine:authorize(user or { name = "bob" }, action or "write", { kind = "queue", name = "jobs" })
  end

  it("begin at eight and end at six, an hour ahead of UTC", function()
    for hour = 0, 23 do
      local is_open = hour + 1 >= 8 and hour + 1 < 18
      assert.equal(is_open and "none" or "deny", (ask(MONDAY_MS + hour * HOUR_MS)), hour)
    end
    assert.equal("deny", (ask(MONDAY_MS + 17 * HOUR_MS)))
    assert.equal("none", (ask(MONDAY_MS + 17 * HOUR_MS - 1)))
  end)

  it("are on working days", function()
    local days = {}
    for day = 0, 6 do
      days[#days + 1] = ask(MONDAY_MS + day * DAY_MS + 12 * HOUR_MS)
    end
    assert.same({ "none", "none", "none", "none", "none", "deny", "deny" }, days)
  end)

  it("are not for readers and admins", function()
    assert.equal("none", (ask(MONDAY_MS, "read")))
    assert.equal("none", (ask(MONDAY_MS, "write", { name = "root", is_admin = true })))
    assert.equal("deny", (ask(MONDAY_MS, "configure")))
  end)

  it("say when they begin", function()
    assert.equal("queue 'jobs' is closed; it opens at 8:00 on working days", (select(2, ask(MONDAY_MS))))
  end)
end)
