-- What a retry script does besides its answer: headers, a target, copies.

local support = require "lua.support.engine"
local json = require "dkjson"

describe("a retry script", function()
  local engine, dir, opened

  before_each(function() opened = {} end)

  after_each(function()
    for _, object in ipairs(opened) do object:close() end
    if engine then engine:close() end
    if dir then support.remove_dir(dir) end
    engine, dir = nil, nil
  end)

  --- A strategy whose decide has this body.
  local function retry(body)
    dir = support.make_dir { ["retry/r.lua"] = "return { decide = function(msg, failure)\n" .. body .. "\nend }" }
    engine = support.open { rules = dir }
    engine:set_now(5000)
    local s = assert(engine:strategy("retry", "r"))
    opened[#opened + 1] = s
    return s
  end

  local function fails(body, why, msg)
    local _, text = retry(body):decide(msg or { key = "k" }, { failures = 1 })
    assert.matches(why, text, 1, true)
    for _, object in ipairs(opened) do object:close() end
    opened = {}
    engine:close()
    support.remove_dir(dir)
    engine, dir = nil, nil
  end

  it("does nothing besides, most often", function()
    local action, extra = retry("return 7"):decide({ key = "k" }, { failures = 1 })
    assert.equal(7, action)
    assert.is_nil(extra)
  end)

  it("writes headers of the message", function()
    local s = retry([[
      msg.headers["x-last-error"] = failure.reason
      msg.headers.tries = (tonumber(msg.headers.tries) or 0) + 1
      msg.headers.gone = nil
      return failure.failures > 1 and tide.BURY or 0]])
    local action, extra = s:decide({ key = "k", headers = { gone = "1", kept = "2" } }, { failures = 1 })
    assert.equal(0, action)
    assert.same({ ["x-last-error"] = "nack", tries = "1", kept = "2" }, extra.msg.headers)
    assert.same({}, extra.copies)
    assert.equal("bury", (s:decide({ key = "k" }, { failures = 2 })))
  end)

  it("reads what the consumer said", function()
    local s = retry [[return failure.reason_text == "no paper" and 60000 or failure.reason_text == nil and 7]]
    assert.equal(60000, (s:decide({}, { reason_text = "no paper" })))
    assert.equal(7, (s:decide({}, {})))
  end)

  it("chooses where the message is dead-lettered to", function()
    local s = retry([[
      if msg.key == "both" then return tide.dead_letter("dead", "k2") end
      if msg.key == "table" then return { exchange = "dead" } end
      return tide.dead_letter("-", "queue")]])
    local function target(key)
      local action, extra = s:decide({ key = key }, { failures = 1 })
      assert.equal("dead-letter", action)
      return extra.exchange .. " " .. tostring(extra.key)
    end
    assert.equal("dead k2", target "both")
    assert.equal("dead nil", target "table")
    assert.equal("- queue", target "x")
  end)

  it("publishes copies, which are new messages", function()
    local _, extra = retry([[
      msg.headers.a = "1"
      msg:copy { exchange = "audit", key = "failed", headers = { reason = failure.reason } }
      msg:copy { exchange = "-", key = "later", payload = "p", delay = "2s", priority = 3 }
      return tide.DROP]]):decide({ key = "k", payload = "x", expires = 4000, due = 10, dedupe_id = "d" },
      { failures = 1 })
    assert.equal(2, #extra.copies)
    local a, b = extra.copies[1], extra.copies[2]
    assert.same({ "audit", "failed", "x", 0, 0, nil }, { a.exchange, a.key, a.payload, a.expires, a.due, a.dedupe_id })
    assert.same({ a = "1", reason = "nack" }, a.headers)
    assert.same({ "-", "later", "p", 7000, 3 }, { b.exchange, b.key, b.payload, b.due, b.priority })
  end)

  it("is told what it may not do", function()
    fails("msg.key = 'x' return 0", "retry/r.lua:2: 'msg.key' is read-only; " ..
      "a retry script may write headers.<name>, publish a copy (msg:copy { … }) and return " ..
      "tide.dead_letter(exchange, key)")
    fails("msg.headers['x-death-total'] = 1 return 0", "whose name begins with x-death- is the broker's")
    fails("for _ = 1, 65 do msg:copy {} end return 0", "a message makes at most 64 copies")
    fails("return tide.dead_letter('a b')", "the exchange of tide.dead_letter must be 1 to 255 bytes")
    fails("return tide.dead_letter('a', '')", "the key of tide.dead_letter must be 1 to 255 bytes")
    fails("return { exchange = 'a', kye = 'b' }", "the table that decide returned")
    fails("return {}", "decide returned a table with a wrong 'exchange'")
    fails("return true", "tide.DEAD_LETTER, tide.dead_letter(exchange, key) or tide.DROP, not a boolean")
    fails("msg.headers.a = 1 return 0", "what is in a topic does not change", { key = "k", offset = 3 })
  end)

  it("shows what it would do in a simulation", function()
    retry([[
      msg.headers.tries = (tonumber(msg.headers.tries) or 0) + 1
      if msg.headers.tries == "3" then return tide.dead_letter("dead", "k") end
      msg:copy { exchange = "audit" }
      return 1000]])
    local attempts = json.decode(assert(engine:simulate("r"))).attempts
    assert.equal(3, #attempts)
    assert.same({ { exchange = "audit", key = "simulation" } }, attempts[1].copies)
    assert.same({ tries = "1" }, attempts[1].headers)
    assert.is_true(attempts[1].wrote_headers)
    assert.is_nil(attempts[1].target)
    assert.same({ exchange = "dead", key = "k" }, attempts[3].target)
    assert.equal("dead-letter", attempts[3].happens)
  end)
end)
