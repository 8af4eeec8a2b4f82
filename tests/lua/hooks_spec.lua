-- deliver/ and settled/: what scripts may say, and each shipped one, in the real engine.

local json = require "dkjson"
local support = require "lua.support.engine"

local function open(files)
  local dir = support.make_dir(files)
  local engine = support.open { rules = dir }
  support.remove_dir(dir)
  return engine
end

describe("a deliver script", function()
  local engine

  after_each(function()
    if engine then engine:close() end
    engine = nil
  end)

  -- The text is the body of deliver for all messages.
  local function use(...)
    local files = {}
    for i, text in ipairs { ... } do
      files[("deliver/%d.lua"):format(i)] =
        "return { match = {}, deliver = function(msg, consumer, opts, state)\n" .. text .. "\nend }"
    end
    engine = open(files)
  end

  it("gives, refuses or delays", function()
    for text, expected in pairs {
      [""] = { verdict = "give" },
      ["return true"] = { verdict = "give" },
      ["return false"] = { verdict = "refuse" },
      ["return false, 'not you'"] = { verdict = "refuse", reason = "not you" },
      ["return 20.4"] = { verdict = "delay", delay = 20 },
      ["return '30s', 'later'"] = { verdict = "delay", delay = 30000, reason = "later" },
      ["return 1e300"] = { verdict = "delay", delay = 3652 * 86400000 },
    } do
      use(text)
      local got = assert(engine:deliver({}, {}))
      if expected.delay and expected.delay > 1e9 then
        assert.is_true(got.delay > 1e9)
      else
        assert.equal(expected.delay, got.delay)
      end
      assert.same({ expected.verdict, expected.reason, "deliver/1.lua" }, { got.verdict, got.reason, got.script })
      engine:close()
      engine = nil
    end
  end)

  it("returns nothing else", function()
    for text, message in pairs {
      ["return 0"] = "deliver must return nothing, false and a reason, or a delay of 1 or more milliseconds "
        .. "or like \"30s\", not 0",
      ["return 0/0"] = "not -nan",
      ["return math.huge"] = "not inf",
      ["return {}"] = "not a table",
      ["return 'soon'"] = "not a string",
      ["return nil, 'why'"] = "deliver returned a second value, a string: to refuse it must return false and a reason",
      ["return false, 5"] = "deliver returned a second value",
      ["msg.key = 'x'"] = "'msg.key' is read-only; a deliver script may write headers.<name>, for this delivery",
      ["msg:copy {}"] = "a deliver script publishes no copies",
      ["consumer.user = 'x'"] = "'consumer' is read-only",
      ["return consumer.nme"] = "there is no 'consumer.nme'; it has address channel "
        .. "name prefetch protocol queue sid unacked user vhost",
      ["msg.headers['x-death-x'] = '1'"] = "is the broker's",
    } do
      use(text)
      local got, err, code = engine:deliver({}, {})
      assert.is_nil(got, text)
      assert.equal("rule", code)
      assert.is_truthy(err:find(message, 1, true), text .. ": " .. err)
      assert.is_truthy(err:find("^deliver/1%.lua:%d"), err)
      engine:close()
      engine = nil
    end
  end)

  it("refuses nothing where an order is kept", function()
    use("return false")
    local got, err = engine:deliver({}, { keeps_order = true })
    assert.is_nil(got)
    assert.is_truthy(err:find("deliver may not refuse what must keep its order", 1, true))
  end)

  it("sees what those before it have written, up to the first that refuses", function()
    use("msg.headers.a = 1", "msg.headers.b = msg.headers.a .. '!'")
    assert.same({ a = "1", b = "1!", c = "2" }, engine:deliver({ headers = { c = "2" } }, {}).headers)
    engine:close()
    use("return false, 'first'", "error 'not asked'")
    assert.equal("first", engine:deliver({}, {}).reason)
  end)

  it("sees the consumer and the message", function()
    use([[
      msg.headers.all = table.concat({ consumer.user or "-", consumer.name or "-", consumer.address, consumer.vhost,
        consumer.queue, consumer.sid or "-", consumer.channel, consumer.unacked, consumer.prefetch,
        consumer.protocol, msg.key, msg.payload, msg.attempt }, " ")]])
    assert.equal("- - 127.0.0.1 / spec - 0 0 1 line k hi 1",
      engine:deliver({ key = "k", payload = "hi" }, {}).headers.all)
    assert.equal("bob pc 10.0.0.1 v q s 3 4 5 stomp k hi 2", engine:deliver({ key = "k", payload = "hi" }, {
      user = "bob", name = "pc", address = "10.0.0.1", vhost = "v", queue = "q", sid = "s", channel = 3,
      unacked = 4, prefetch = 5, protocol = "stomp", attempt = 2,
    }).headers.all)
  end)

  it("is asked when its match fits", function()
    engine = open { ["deliver/a.lua"] = [[
      return { match = { queue = "jobs.#", user = "bob", headers = { tier = true } },
        deliver = function() return false end }]] }
    local function verdict(queue, user, tier)
      return engine:deliver({ headers = { tier = tier } }, { queue = queue, user = user }).verdict
    end
    assert.equal("refuse", verdict("jobs.eu", "bob", "gold"))
    assert.equal("give", verdict("job", "bob", "gold"))
    assert.equal("give", verdict("jobs", "eve", "gold"))
    assert.equal("give", verdict("jobs", "bob", nil))
  end)
end)

describe("a settled script", function()
  local engine

  after_each(function()
    if engine then engine:close() end
    engine = nil
  end)

  it("publishes copies, of their own time and nobody's", function()
    engine = open { ["settled/a.lua"] = [[
      return { match = {}, settled = function(msg, o)
        msg:copy {}
        msg:copy { exchange = "x", key = o.event, payload = "", headers = { h = false, n = o.took_ms } }
      end }]] }
    local copies = assert(engine:settled({
      exchange = "e", key = "k", payload = "hi", headers = { h = "1" }, ts = 1000, due = 2000, expires = 9000,
      user = "bob", dedupe_id = "d", priority = 3,
    }, { took_ms = 7, event = "retry" }))
    assert.equal(2, #copies)
    assert.same({ "e", "k", "hi", 3, 0, 0, { h = "1" } }, { copies[1].exchange, copies[1].key, copies[1].payload,
      copies[1].priority, copies[1].due, copies[1].expires, copies[1].headers })
    assert.is_nil(copies[1].user)
    assert.is_nil(copies[1].dedupe_id)
    assert.same({ "x", "retry", "", { n = "7" } },
      { copies[2].exchange, copies[2].key, copies[2].payload, copies[2].headers })
  end)

  it("knows the place of a message of a topic, and the group", function()
    engine = open { ["settled/a.lua"] = [[
      return { match = {}, settled = function(msg, outcome)
        msg:copy { key = ("%s.%s:%s"):format(outcome.group, msg.partition, msg.offset) }
      end }]] }
    assert.equal("g.2:7", engine:settled({ partition = 2, offset = 7 }, { group = "g" })[1].key)
    assert.equal("nil.nil:nil", engine:settled({}, {})[1].key)
  end)

  it("changes nothing, and returns nothing", function()
    for text, message in pairs {
      ["return false"] = "settled must return nothing, not a boolean",
      ["return 5"] = "settled must return nothing, not a number",
      ["msg.key = 'x'"] = "'msg.key' is read-only; a settled script may publish a copy",
      ["msg.headers.x = 'x'"] = "'msg.headers' is read-only; a settled script may publish a copy",
      ["outcome.event = 'ack'"] = "'outcome' is read-only",
      ["return outcome.evnt"] = "there is no 'outcome.evnt'; it has attempts event failures "
        .. "group queue reason rule took_ms user vhost waited_ms",
      ["for _ = 1, 65 do msg:copy {} end"] = "a message makes at most 64 copies",
    } do
      engine = open { ["settled/a.lua"] =
        "return { match = {}, settled = function(msg, outcome)\n" .. text .. "\nend }" }
      local got, err = engine:settled({}, {})
      assert.is_nil(got, text)
      assert.is_truthy(err:find(message, 1, true), err)
      engine:close()
      engine = nil
    end
  end)

  it("is told no outcome with a name that there is not", function()
    engine = open { ["settled/a.lua"] = "return { match = {}, settled = function() end }" }
    for message, call in pairs {
      ["an outcome has no 'evnt'; it has attempts, event"] = function() engine:settled({}, { evnt = "ack" }) end,
      ["a consumer has no 'quue'; it has address, channel"] = function() engine:deliver({}, { quue = "jobs" }) end,
      ["a message has no 'exchnage'; it has exchange, key"] = function() engine:filter { exchnage = "orders" } end,
      ["a login has no 'usr'; it has user"] = function() engine:authenticate { usr = "bob" } end,
      ["a client has no 'usr'; it has user"] = function() engine:connect { usr = "bob" } end,
      ["a user has no 'nme'; it has name"] = function() engine:authorize({ nme = "bob" }, "read", {}) end,
    } do
      assert.error_matches(call, message)
    end
    assert.error_matches(function() engine:strategy("rety", "fixed") end,
      "there are no strategies 'rety'; there are: sharding priority retry")
    local retry = assert(engine:strategy("retry", "fixed"))
    assert.error_matches(function() retry:decide({}, { failure = 3 }) end,
      "a failure has no 'failure'; it has attempts, deliveries, failures, reason")
  end)

  it("that fails makes no copies, and those behind it are told", function()
    engine = open {
      ["settled/a.lua"] = "return { match = {}, settled = function(msg) msg:copy {} error 'no' end }",
      ["settled/b.lua"] = "return { match = {}, settled = function() end }",
    }
    assert.is_nil(engine:settled({}, {}))
    local calls = {}
    for _, s in ipairs(json.decode(engine:status()).scripts) do
      if s.file:find "^settled/" then calls[s.file] = s.calls end
    end
    assert.same({ ["settled/a.lua"] = 1, ["settled/b.lua"] = 1 }, calls)
  end)
end)

describe("the shipped", function()
  local engine

  after_each(function()
    engine:close()
    engine = nil
  end)

  local function read(path)
    local file = assert(io.open("rules/" .. path))
    local text = file:read "a"
    file:close()
    return text
  end

  -- With an instance that has these options.
  local function use(path, options)
    local kind, name = path:match "^(%l+)/([%l_]+)"
    engine = open {
      [path] = read(path),
      [kind .. "/10-use.lua"] = ("return tide.use(%q, { match = {}, options = %s })"):format(name, options),
    }
  end

  it("redact leaves headers out, except for some users", function()
    use("deliver/redact.lua", "{ headers = { 'card', 'pin' }, users = { 'billing' } }")
    local msg = { headers = { card = "4711", pin = "1", tier = "gold" } }
    assert.same({ tier = "gold" }, engine:deliver(msg, { user = "shop" }).headers)
    assert.same({ tier = "gold" }, engine:deliver(msg, {}).headers)
    assert.same(msg.headers, engine:deliver(msg, { user = "billing" }).headers)
    assert.same({}, engine:deliver({}, {}).headers)
  end)

  it("quiet_hours delays until the morning", function()
    use("deliver/quiet_hours.lua", "{ from = 22, to = 7, zone = 'Europe/Berlin' }")
    local hour = 3600000
    local day = 1795392000000 -- 2026-11-23 00:00 UTC, which is 1 o'clock in Berlin
    local function ask(ms, priority)
      engine:set_now(day + ms)
      local got = engine:deliver({ priority = priority }, {})
      return got.delay, got.verdict, got.reason
    end
    assert.same({ 6 * hour, "delay", "quiet hours" }, { ask(0) })
    assert.same({ 1000, "delay", "quiet hours" }, { ask(6 * hour - 1000) })
    assert.same({ nil, "give" }, { ask(6 * hour) })
    assert.same({ nil, "give" }, { ask(21 * hour - 1) })
    assert.same({ 9 * hour, "delay", "quiet hours" }, { ask(21 * hour) })
    assert.same({ 8.5 * hour, "delay", "quiet hours" }, { ask(21.5 * hour) })
    assert.same({ nil, "give" }, { ask(22 * hour, 200) })
  end)

  it("followup publishes what became of a message", function()
    use("settled/followup.lua", "{ events = { 'ack', 'dead-letter' } }")
    local msg = { id = 255, key = "k", payload = "hi", headers = { a = "1" } }
    local copies = assert(engine:settled(msg, { event = "ack", queue = "jobs", attempts = 2, took_ms = 15 }))
    assert.equal(1, #copies)
    assert.same({ "jobs.done", "", {
      a = "1", ["settled-id"] = "00000000000000ff", ["settled-event"] = "ack", ["settled-queue"] = "jobs",
      ["settled-attempts"] = "2", ["settled-took-ms"] = "15",
    } }, { copies[1].key, copies[1].payload, copies[1].headers })
    assert.same({}, engine:settled(msg, { event = "retry", queue = "jobs" }))
    local dead = engine:settled(msg, { event = "dead-letter", reason = "nack", queue = "jobs" })
    assert.equal("nack", dead[1].headers["settled-reason"])
    engine:close()
    use("settled/followup.lua", "{ exchange = 'done', key = 'of.{queue}.{event}', payload = true }")
    local copy = engine:settled(msg, { queue = "jobs" })[1]
    assert.same({ "done", "of.jobs.ack", "hi" }, { copy.exchange, copy.key, copy.payload })
  end)
end)
