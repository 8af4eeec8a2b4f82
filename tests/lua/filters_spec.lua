-- What filters may do, and each shipped one, in the real engine.

local support = require "lua.support.engine"

describe("a filter", function()
  local engine

  after_each(function()
    engine:close()
    engine = nil
  end)

  -- An engine with these filters by name; a text is the body of publish for all
  -- messages.
  local function open(filters)
    local files = {}
    for name, text in pairs(filters) do
      if not text:find("return {", 1, true) then
        text = "return { match = {}, publish = function(msg)\n" .. text .. "\nend }"
      end
      files["filter/" .. name .. ".lua"] = text
    end
    local dir = support.make_dir(files)
    engine = support.open { rules = dir }
    support.remove_dir(dir)
  end

  local function pass(msg)
    local result, message = engine:filter(msg)
    return assert(result, message)
  end

  local function fails(msg, code)
    local result, message, wire_code = engine:filter(msg)
    assert.is_nil(result)
    assert.equal(code or "rule", wire_code)
    return message
  end

  it("lets pass what it does not touch", function()
    open { a = "", b = "return true" }
    local m = pass { exchange = "x", key = "a.b", payload = "hello", headers = { h = "v" }, priority = 3 }
    assert.same({ "x", "a.b", "hello", 3 }, { m.exchange, m.key, m.payload, m.priority })
    assert.same({ h = "v" }, m.headers)
  end)

  it("writes key, exchange, priority, delay, ttl, payload and headers", function()
    open {
      a = [[
        msg.key, msg.exchange, msg.priority = "k", "y", 9
        msg.ttl = "30s"
        msg.delay = 1500.4
        msg.payload = msg.payload .. "!"
        msg.headers.new, msg.headers.n, msg.headers.gone = "1", 5, nil
        msg.headers.changed = msg.headers.changed:upper()]],
      b = [[
        assert(msg.key == "k" and msg.exchange == "y" and msg.priority == 9)
        assert(msg.delay == 1500 and msg.ttl == 30000 and msg.size == 3)
        assert(msg.payload == "hi!" and msg.headers.new == "1")
        local names = {}
        for name, value in pairs(msg.headers) do names[#names + 1] = name .. "=" .. value end
        table.sort(names)
        msg.headers.all = table.concat(names, ",")]],
    }
    local m = pass { exchange = "x", key = "a", payload = "hi", ts = 1000000, headers = { gone = "x", changed = "up" } }
    assert.same({ "y", "k", "hi!", 9 }, { m.exchange, m.key, m.payload, m.priority })
    assert.same({ 1001500, 1031500 }, { m.due, m.expires })
    assert.same({ new = "1", n = "5", changed = "UP", all = "changed=UP,n=5,new=1" }, m.headers)
  end)

  it("takes the time to live from when the message is due", function()
    open { a = "msg.delay = 0; assert(msg.ttl == 5000)" }
    assert.equal(1005000, pass({ ts = 1000000, due = 1060000, expires = 1065000 }).expires)
    open { a = "msg.ttl = nil" }
    assert.equal(0, pass({ ts = 1000000, expires = 1065000 }).expires)
  end)

  it("sees and writes the id that the publisher gave it", function()
    open { a = "assert(msg.dedupe_id == 'a b') msg:copy { dedupe_id = 'other' } msg:copy {}" }
    local m = pass { key = "k", dedupe_id = "a b" }
    assert.equal("a b", m.dedupe_id)
    assert.same({ "other", "a b" }, { m.copies[1].dedupe_id, m.copies[2].dedupe_id })
    open { a = "msg.dedupe_id = msg.headers.order" }
    assert.equal("42", pass({ headers = { order = "42" } }).dedupe_id)
    assert.is_nil(pass({ dedupe_id = "a" }).dedupe_id)
    open { a = "msg.dedupe_id = ('x'):rep(#msg.payload)" }
    assert.equal(128, #pass({ payload = ("y"):rep(128) }).dedupe_id)
    assert.matches("msg.dedupe_id has 129 bytes; 128 are allowed", fails { payload = ("y"):rep(129) })
    open { a = "msg.dedupe_id = 5" }
    assert.matches("msg.dedupe_id must be a text, not '5'", fails {})
  end)

  it("says what may be written", function()
    local cases = {
      { "msg.priority = 256", "msg.priority must be an integer from 0 to 255, not '256'" },
      { "msg.priority = '5'", "msg.priority must be an integer from 0 to 255, not '5'" },
      { "msg.key = 'a b'",
        "msg.key must be 1-255 bytes of UTF-8 without white space and control characters, not 'a b'" },
      { "msg.key = ('x'):rep(256)", "msg.key must be 1-255 bytes" },
      { "msg.exchange = nil", "msg.exchange must be a text, not 'nil'" },
      { "msg.delay = -1", "msg.delay must be milliseconds from 0, or a duration like '30s', not '-1'" },
      { "msg.delay = 'soon'", "msg.delay must be milliseconds from 0" },
      { "msg.delay = 0/0", "msg.delay must be milliseconds from 0" },
      { "msg.delay = 1e300", "msg.delay must be milliseconds from 0" },
      { "msg.ttl = 0", "msg.ttl must be milliseconds from 1, a duration like '30s', or nil, not '0'" },
      { "msg.payload = {}", "msg.payload must be a text, not 'table" },
      { "msg.id = 'x'", "'msg.id' is read-only; a filter may write dedupe_id delay exchange json key payload priority "
        .. "ttl and headers.<name>" },
      { "msg.headers = {}", "'msg.headers' is read-only" },
      { "msg[1] = 1", "there is no 'msg.1'; a filter may write dedupe_id" },
      { "msg.routing_key = 'a'", "there is no 'msg.routing_key'; a filter may write dedupe_id" },
      { "msg.headers['a b'] = 'x'", "a header's name must be 1-255 bytes" },
      { "msg.headers['a=b'] = 'x'", "without white space, control characters and '='" },
      { "msg.headers[1] = 'x'", "a header's name must be a text, not a number" },
      { "msg.headers.x = true", "a header's value must be a text, a number or nil, not a boolean" },
      { "for i = 1, 65 do msg.headers['h' .. i] = 'x' end", "a message has at most 64 headers" },
      { "msg.headers.x = (' '):rep(30000)", "the headers of a message have at most 61440 bytes in all" },
      { "msg:copy { exchnage = 'x' }",
        "msg:copy takes dedupe_id delay exchange json key payload priority ttl headers, not 'exchnage'" },
      { "msg:copy { headers = 'x' }", "the headers of a copy must be a table, not a string" },
      { "msg:copy { priority = 300 }", "msg.priority must be an integer" },
      { "msg:copy()", "table expected" },
      { "msg.copy { key = 'x' }", "write msg:copy { … }, with a colon" },
      { "for i = 1, 65 do msg:copy {} end", "a publish makes at most 64 copies" },
      { "return 5", "publish must return nothing, or false and a reason, not a number" },
      { "return false, {}",
        "publish returned a second value, a table: to refuse it must return false and a reason, which is a text" },
      { "return msg.nokey", "there is no 'msg.nokey'; it has " },
      { "error 'boom'", "boom" },
    }
    for _, case in ipairs(cases) do
      open { ["10-x"] = case[1] }
      local message = fails { key = "k" }
      assert.is_truthy(message:find(case[2], 1, true), message)
      assert.matches("^filter/10%-x%.lua:%d+: ", message)
      engine:close()
    end
    open {}
  end)

  it("cannot write through a view that has expired, nor leave a half of a change", function()
    open { a = "if old then old.key = 'x' end old = msg; msg.headers.a = '1'" }
    assert.equal("1", pass({ key = "k" }).headers.a)
    assert.matches("this 'msg' has expired", fails { key = "k" })
  end)

  it("has one view for all of a chain, and another for the next message", function()
    local body = "if old then assert(old.headers.n) end old = msg; msg.headers.n = (msg.headers.n or '') .. '%s'"
    open { a = body:format "a", b = body:format "b", c = body:format "c" }
    assert.equal("abc", pass({ key = "k" }).headers.n)
    assert.matches("^filter/a.lua:%d+: this 'msg' has expired", fails { key = "k" })
    open { a = "return", b = body:format "b", c = "msg.headers.n = msg.headers.n .. 'c'" }
    assert.equal("bc", pass({ key = "k" }).headers.n)
    assert.matches("^filter/b.lua:%d+: this 'msg' has expired", fails { key = "k" })
  end)

  it("refuses with a reason, and those behind it are not asked", function()
    open { ["10-a"] = "return false, 'not today'", ["20-b"] = "error 'asked'" }
    assert.equal("not today (filter/10-a.lua)", fails({}, "rejected"))
    assert.matches('"rejected":1', engine:status())
    open { a = "return false" }
    assert.equal("a filter refused the message (filter/a.lua)", fails({}, "rejected"))
  end)

  it("runs in the order of the file names", function()
    open {
      ["30-c"] = "msg.headers.order = msg.headers.order .. 'c'",
      ["10-a"] = "msg.headers.order = 'a'",
      ["20-b"] = "msg.headers.order = msg.headers.order .. 'b'",
    }
    assert.equal("abc", pass({}).headers.order)
  end)

  it("sees what it matches, by topic patterns", function()
    local function matched(pattern, key)
      local text = "return { match = { key = %q }, publish = function(msg) msg.headers.seen = '1' end }"
      open { a = text:format(pattern) }
      local is = pass({ key = key }).headers.seen == "1"
      engine:close()
      return is
    end
    local cases = {
      { "#", "" }, { "#", "a.b" }, { "-", "" }, { "a.*", "a.b" }, { "a.#", "a" }, { "a.#", "a.b.c" },
      { "#.c", "a.b.c" }, { "a.#.c", "a.c" }, { "*.*", "a." }, { "#.a.#.b.#", "x.a.y.b" }, { "*.#", "a" },
      { "#.*", "a.b" }, { "#.#", "" }, { "a.b", "a.b" }, { "#.a.b", "a.a.b" },
      { "a.*", "a", no = true }, { "*", "", no = true }, { "*", "a.b", no = true }, { "a.#.c", "a.b", no = true },
      { "#.a.#.b.#", "b.a", no = true }, { "-", "a", no = true }, { "a", "a.b", no = true }, { "a.b", "a", no = true },
      { "#.*.#", "", no = true }, { "a.#", "ab", no = true },
    }
    for _, case in ipairs(cases) do
      assert.equal(not case.no, matched(case[1], case[2]), case[1] .. " " .. case[2])
    end
    open {}
  end)

  it("sees the exchange that it matches, as those before it left it", function()
    open {
      ["10-key"] = "if msg.key == 'a' then msg.key = 'b' end",
      ["20-b"] = [[return { match = { exchange = "x", key = "b" },
        publish = function(msg) msg.headers.b = "1" end }]],
      ["20-c"] = [[return { match = { exchange = "-" }, publish = function(msg) msg.headers.c = "1" end }]],
    }
    assert.same({ b = "1" }, pass({ exchange = "x", key = "a" }).headers)
    assert.same({}, pass({ exchange = "y", key = "a" }).headers)
    assert.same({ c = "1" }, pass({ key = "a" }).headers)
  end)

  it("begins anew for another exchange; one for all sees a message once", function()
    open {
      ["10-y"] = [[return { match = { exchange = "y" },
        publish = function(msg) msg.headers.y = (msg.headers.y or "") .. "y" end }]],
      ["20-all"] = "msg.headers.all = (msg.headers.all or '') .. 'a'",
      ["30-x"] = [[return { match = { exchange = "x" }, publish = function(msg) msg.exchange = "y" end }]],
    }
    local m = pass { exchange = "x" }
    assert.same({ y = "y", all = "a" }, m.headers)
    assert.same({ "y", 1 }, { m.exchange, m.hops })
  end)

  it("may reroute all and is no circle; two that do for each other are one", function()
    open { a = "msg.exchange = msg.exchange == 'x' and 'y' or 'x'" }
    assert.equal("y", pass({ exchange = "x" }).exchange)
    open {
      a = [[return { match = { exchange = "x" }, publish = function(msg) msg.exchange = "y" end }]],
      b = [[return { match = { exchange = "y" }, publish = function(msg) msg.exchange = "x" end }]],
    }
    assert.matches("^filter/%a%.lua:1: the message has been rerouted or copied more than 8 times",
      fails { exchange = "x" })
  end)

  it("makes copies of the message as it is, changed where it says so", function()
    open {
      a = [[
        msg.headers.a = "1"
        msg:copy { exchange = "y", key = "k2", headers = { b = "2", gone = false }, delay = "1s", payload = "p" }
        msg.headers.a = "3"
        msg:copy {}]],
    }
    local m = pass { exchange = "x", key = "k", payload = "hello", ts = 1000, headers = { gone = "x" } }
    local first, second = m.copies[1], m.copies[2]
    assert.same({ "y", "k2", "p", 2000 }, { first.exchange, first.key, first.payload, first.due })
    assert.same({ a = "1", b = "2" }, first.headers)
    assert.same({ "x", "k", "hello", 0 }, { second.exchange, second.key, second.payload, second.due })
    assert.same({ a = "3", gone = "x" }, second.headers)
    assert.same({ a = "3", gone = "x" }, m.headers)
  end)

  it("is given no name that is longer than names may be", function()
    open { a = "" }
    pass { exchange = ("e"):rep(255), key = ("k"):rep(255) }
    local function filter(m) return function() engine:filter(m) end end
    assert.has_error(filter { exchange = ("e"):rep(256) }, "a message's exchange has at most 255 bytes")
    assert.has_error(filter { key = ("k"):rep(100000) }, "a message's key has at most 255 bytes")
  end)

  it("is loaded and checked, but not asked, without a match", function()
    open { a = "return { publish = function() error 'asked' end }" }
    pass {}
    assert.equal(0, engine:filter_count())
    assert.matches('"active":false', engine:status())
    open { a = "" }
    assert.equal(1, engine:filter_count())
    assert.matches('"active":true,.-"match":{"exchange":"%*","key":"#"}', engine:status())
  end)

  it("has a shape that is checked", function()
    local function refused(text)
      local dir = support.make_dir { ["filter/10-x.lua"] = text }
      local e, message = support.luatide.open { rules = dir }
      support.remove_dir(dir)
      assert.is_nil(e)
      return message
    end
    assert.matches("needs a function 'publish'", refused "return { match = {} }")
    assert.matches("options must be a table, not a string", refused "return { options = 'x', publish = print }")
    assert.matches("a filter script has no 'pure'", refused "return { pure = true, publish = print }")
    assert.matches("by = '@usr': a header, '@user' or '@all' %(for filter/10%-x.lua%)",
      refused "return tide.use('rate_limit', { match = {}, options = { by = '@usr' } })")
    assert.matches("'match' must be a table", refused "return { match = 'x', publish = print }")
    assert.matches("'match' of a filter script has no 'keys'; it has exchange, key",
      refused "return { match = { keys = '#' }, publish = print }")
    assert.matches("'match.key' must be a text", refused "return { match = { key = 5 }, publish = print }")
    assert.matches("'match.exchange' must be 1%-255 bytes",
      refused "return { match = { exchange = 'a b' }, publish = print }")
    assert.matches("'match.headers.tier' must be a text or a list of texts, or true or false, not a number",
      refused "return { match = { headers = { tier = 5 } }, publish = print }")
    assert.matches("'match.min_size' is above 'max_size': nothing would match",
      refused "return { match = { min_size = 10, max_size = 5 }, publish = print }")
    assert.matches("option 'a': the default must be a duration such as 500ms, 30s or 5m, at least 90s, not '1s'",
      refused "return { options = { a = { type = 'duration', min = '90s', default = '1s' } }, publish = print }")
    assert.matches("option 'a': the value is a table with the name 'ttl', but it takes a list of values",
      refused "return { options = { a = { type = 'list', default = { ttl = '7d' } } }, publish = print }")
    open {}
  end)

  it("is stopped when it overruns, and the message is refused", function()
    open { ["10-x"] = "while true do end" }
    engine:close()
    local dir = support.make_dir {
      ["filter/10-x.lua"] = "return { match = {}, publish = function() while true do end end }",
    }
    engine = support.open { rules = dir, budget_ms = 30 }
    support.remove_dir(dir)
    assert.matches("^filter/10%-x%.lua:1: ", fails {})
  end)

  it("remembers many addresses without end", function()
    open { a = "return { match = { key = 'a.#' }, publish = function(msg) msg.headers.a = '1' end }" }
    for i = 1, 20000 do
      local key = (i % 2 == 0 and "a." or "b.") .. i
      assert.equal(i % 2 == 0, pass({ key = key }).headers.a == "1")
    end
  end)

  it("costs little more than a call, five of them too", function()
    local m = { exchange = "x", key = "a.b", payload = "hello", headers = { tenant = "t" } }
    local function cost()
      local best = math.huge
      for _ = 1, 20 do
        local started = os.clock()
        for _ = 1, 5000 do pass(m) end
        best = math.min(best, os.clock() - started)
      end
      return best
    end
    open {}
    local none = cost()
    open {
      ["10-a"] = "if msg.headers.blocked then return false, 'blocked' end",
      ["20-b"] = "if msg.size > 100000 then return false, 'too big' end",
      ["30-c"] = "if not msg.headers.tenant then return false, 'no tenant' end",
      ["40-d"] = "if msg.key == 'never' then msg.key = 'ever' end",
      ["50-e"] = "if msg.priority > 9 then msg.priority = 9 end",
    }
    -- tests/bench measures.
    local five = cost()
    assert.is_true(five < 15 * none, five / none)
  end)
end)

describe("a shipped filter", function()
  local MATCHED = { mirror = '"orders"', record = '"orders"', schema = '"orders"', content_route = '"orders"' }
  local engine
  local last_id = 0

  local dir

  after_each(function()
    engine:close()
    if dir then support.remove_dir(dir) end
    dir = nil
  end)

  -- As a user would make it: used, with a match and options, as Lua text.
  local function open(name, given, options)
    local text = ('return tide.use("%s", { match = { exchange = %s }, options = { %s } })'):format(
      name, MATCHED[name] or '"*"', given or "")
    options = options or {}
    local files = { ["filter/50-" .. name .. ".lua"] = text }
    local model = assert(io.open("rules/filter/" .. name .. ".lua"))
    files["filter/" .. name .. ".lua"] = model:read("a")
    model:close()
    dir = support.make_dir(files)
    options.rules = dir
    engine = support.open(options)
    assert.equal(1, engine:filter_count())
  end

  local function reason(msg)
    last_id = last_id + 1
    msg.id = msg.id or last_id
    local result, message, code = engine:filter(msg)
    assert.equal(result and "nil" or "rejected", tostring(code), message)
    return message
  end

  it("is inert as it is shipped", function()
    engine = support.open()
    assert.equal(0, engine:filter_count())
    for _, name in ipairs { "content_route", "dedupe", "mirror", "rate_limit", "record", "schema", "shed" } do
      assert.matches('"file":"filter/' .. name .. '.lua"', engine:status())
    end
  end)

  it("refuses options that cannot be", function()
    local function refused(name, given)
      dir = support.make_dir {
        ["filter/" .. name .. ".lua"] = assert(io.open("rules/filter/" .. name .. ".lua")):read("a"),
        ["filter/10-x.lua"] = ('return tide.use("%s", { match = {}, options = { %s } })'):format(name, given),
      }
      local e, message = support.luatide.open { rules = dir }
      support.remove_dir(dir)
      dir = nil
      assert.is_nil(e)
      return message
    end
    assert.matches("^filter/rate_limit.lua:%d+: 'rate' is .*%(for filter/10%-x.lua%)$",
      refused("rate_limit", 'rate = "often"'))
    assert.matches("needs the option 'exchange' or 'key'", refused("content_route", 'pattern = "x"'))
    assert.matches("malformed pattern", refused("content_route", 'pattern = "[", key = "k"'))
    assert.matches("malformed pattern", refused("schema", 'tenant = "["'))
    engine = support.open()
  end)

  describe("dedupe", function()
    local function publish(id, now, exchange)
      engine:set_now(now)
      return reason { exchange = exchange or "x", headers = { ["message-id"] = id } } == nil
    end

    it("refuses an id within the window, of the same exchange", function()
      open("dedupe")
      assert.is_true(publish("a", 0))
      assert.is_false(publish("a", 599999))
      assert.is_true(publish("a", 0, "y"))
      assert.is_true(publish("b", 1))
      assert.is_true(publish("a", 600000))
      assert.is_false(publish("a", 600001))
      assert.is_nil(reason {})
      assert.matches("a message with this message%-id was published already, as 0+%x %(",
        reason { exchange = "x", headers = { ["message-id"] = "a" } })
    end)

    it("starts the window anew at each repeat with extend", function()
      open("dedupe", "extend = true")
      assert.is_true(publish("a", 0))
      assert.is_false(publish("a", 599999))
      assert.is_false(publish("a", 1199998))
      assert.is_true(publish("a", 1799998))
    end)

    it("tells vhosts, exchanges and ids apart, and refuses what is too long to be told apart", function()
      open("dedupe")
      local function passes(vhost, exchange, id)
        return reason { vhost = vhost, exchange = exchange, headers = { ["message-id"] = id } } == nil
      end
      for _, vhost in ipairs { "/", "a", "b" } do
        for _, exchange in ipairs { "", "a", "b" } do
          for _, id in ipairs { "", "a", " a", "a b", "b" } do
            assert.is_true(passes(vhost, exchange, id))
            assert.is_false(passes(vhost, exchange, id))
          end
        end
      end
      assert.is_true(passes("/", "x", ("i"):rep(242)))
      assert.matches("its message%-id is 1 byte too long",
        reason { exchange = "x", headers = { ["message-id"] = ("i"):rep(243) } })
      assert.matches("its message%-id is 2 bytes too long",
        reason { exchange = "x", headers = { ["message-id"] = ("i"):rep(244) } })
    end)

    it("lets the first one by again, and dead letters", function()
      open("dedupe")
      local function passes(id, more)
        return reason { id = id, headers = { ["message-id"] = "a", ["x-death-queue"] = more } } == nil
      end
      assert.is_true(passes(7))
      assert.is_true(passes(7))
      assert.is_false(passes(8))
      assert.is_true(passes(8, "jobs"))
    end)

    it("remembers through reloads, and for the window alone", function()
      open("dedupe")
      local due = {}
      for i = 1, 3000 do
        local id, now = "id" .. math.random(200), i * 1000
        assert.equal((due[id] or 0) <= now, publish(id, now), id)
        if (due[id] or 0) <= now then due[id] = now + 600000 end
        if i % 500 == 0 then assert(engine:reload()) end
      end
    end)

    it("is exact: each of many ids passes once in a window", function()
      open("dedupe")
      for round = 0, 2 do
        for i = 1, 5000 do
          assert.equal(round == 0, publish("id" .. i, round * 1000 + i % 7))
        end
      end
    end)

    it("is bounded, and exact at the bound: it refuses what it cannot remember", function()
      open("dedupe", nil, { shared_entries = 3 })
      for _, id in ipairs { "a", "b", "c" } do
        assert.is_true(publish(id, 0))
      end
      assert.matches("there is no room for its message%-id; try again later",
        reason { exchange = "x", headers = { ["message-id"] = "d" } })
      assert.is_false(publish("b", 0))
      assert.is_nil(reason {})
      assert.matches('"circuit":"closed"', engine:status())
      assert.matches('"rejected":2', engine:status())
      assert.is_true(publish("d", 600000))
    end)

    it("remembers nothing of an EXPLAIN", function()
      open("dedupe")
      engine:dry_run(function()
        assert.is_true(publish("a", 0))
      end)
      assert.is_true(publish("a", 0))
    end)
  end)

  describe("rate_limit", function()
    local function publish(tenant, now)
      engine:set_now(now)
      local m, message, code = engine:filter { ts = now, headers = { tenant = tenant } }
      assert(m or code == "rejected", message)
      return m and (m.due == 0 and 0 or m.due - now)
    end

    it("lets the burst pass, then the rate, of each tenant", function()
      open("rate_limit", 'rate = "10/s", burst = 5')
      local function count(tenant, from, to)
        local passed = 0
        for now = from, to do
          passed = passed + (publish(tenant, now) and 1 or 0)
        end
        return passed
      end
      -- 1000 messages in a second: 5 at once and 10 that the second brings.
      assert.is_true(math.abs(count("a", 1, 1000) - 14) <= 1)
      assert.is_true(math.abs(count("a", 1001, 11000) - 100) <= 1)
      assert.is_true(math.abs(count("b", 11000, 12000) - 14) <= 1)
      assert.matches("faster than 10/s; try again in %d+ ms %(filter/50%-rate_limit%.lua%)",
        reason { headers = { tenant = "b" } })
    end)

    it("shapes: messages leave at the rate, none is refused until the line is too long", function()
      open("rate_limit", 'rate = 10, burst = 2, shape = true')
      local delays = {}
      for i = 1, 5 do
        delays[i] = publish("a", 1000)
      end
      assert.same({ 0, 0, 100, 200, 300 }, delays)
      for _ = 6, 302 do
        assert.is_number(publish("a", 1000))
      end
      assert.is_nil(publish("a", 1000))
    end)

    it("has one bucket for all without a header to go by, and takes nothing in an EXPLAIN", function()
      open("rate_limit", 'by = "@all", rate = 1, burst = 1')
      engine:dry_run(function()
        assert.equal(0, publish("a", 0))
        assert.equal(0, publish("a", 0))
      end)
      assert.equal(0, publish("a", 0))
      assert.is_nil(publish("b", 0))
    end)

    it("goes by the user, whatever the headers say", function()
      open("rate_limit", 'by = "@user", rate = 1, burst = 1')
      local function by(user, tenant)
        engine:set_now(0)
        return engine:filter { ts = 0, user = user, headers = { tenant = tenant } } ~= nil
      end
      assert.is_true(by("alice", "a"))
      assert.is_false(by("alice", "b"))
      assert.is_true(by("bob", "a"))
      assert.is_true(by(nil, "a"))
      assert.is_false(by(nil, "b"))
    end)

    it("is bounded: a bucket that is full takes no room, and too many others are an error", function()
      open("rate_limit", 'rate = 10, burst = 1', { shared_entries = 12 }) -- its share is 10
      for i = 1, 1000 do
        assert.equal(0, publish("t" .. i, i * 10))
      end
      for i = 1, 10 do
        assert.equal(0, publish("u" .. i, 20000))
      end
      local m, message, code = engine:filter { headers = { tenant = "v" } }
      assert.is_nil(m)
      assert.equal("rule", code)
      assert.matches("^filter/rate_limit%.lua:%d+: .*tide.shared is full for filter/50%-rate_limit%.lua", message)
      assert.equal(false, publish("u1", 20000) or false)
    end)

    it("takes a sender of any length, and vhosts for themselves", function()
      open("rate_limit", 'rate = 1, burst = 1')
      assert.equal(0, publish(("x"):rep(1000), 0))
      assert.is_nil(publish(("x"):rep(1000), 0))
      assert.is_nil(reason { vhost = "a", headers = { tenant = ("x"):rep(1000) } })
    end)

    for _, shape in ipairs { "false", "true" } do
      it("gives nobody a second burst at a reload, SHAPE = " .. shape, function()
        open("rate_limit", 'rate = 10, burst = 5, delay_max = "2s", shape = ' .. shape)
        local passed = 0
        for now = 1, 10000, 5 do
          passed = passed + (publish("a", now) and 1 or 0)
          if now % 250 == 1 then assert(engine:reload()) end
        end
        -- The burst and ten seconds' worth; shaping lets in the two seconds to come too.
        local expected = shape == "true" and 125 or 105
        assert.is_true(math.abs(passed - expected) <= 1, passed)
      end)
    end
  end)

  it("mirror copies its share, and no copy of a copy", function()
    open("mirror")
    local copies = 0
    for id = 1, 10000 do
      local m = assert(engine:filter { id = id, exchange = "orders", key = "k" })
      assert.equal("orders", m.exchange)
      for _, copy in ipairs(m.copies) do
        assert.same({ "mirror", "k" }, { copy.exchange, copy.key })
        assert.equal(("%016x"):format(id), copy.headers["x-mirror-of"])
        assert.same({}, assert(engine:filter(copy)).copies)
        copies = copies + 1
      end
    end
    assert.is_true(math.abs(copies - 1000) < 120, copies)
  end)

  it("record copies each message with its key, and no copy of a copy", function()
    open("record")
    local m = assert(engine:filter { id = 255, exchange = "orders", key = "eu.new", payload = "p", dedupe_id = "o-1" })
    assert.same({ "orders", "eu.new", 1 }, { m.exchange, m.key, #m.copies })
    local copy = m.copies[1]
    assert.same({ "record", "eu.new", "p", "o-1" }, { copy.exchange, copy.key, copy.payload, copy.dedupe_id })
    assert.equal("orders", copy.headers["x-record-exchange"])
    assert.equal("00000000000000ff", copy.headers["x-record-of"])
    assert.same({}, assert(engine:filter(copy)).copies)
  end)

  it("schema refuses what lacks a header or has the wrong size", function()
    open("schema", 'required = { "tenant" }, ["content-type"] = "^application/json", min_size = 1, max_size = 65536')
    local function check(headers, payload)
      return reason { exchange = "orders", headers = headers, payload = payload or "{}" }
    end
    assert.is_nil(check { ["content-type"] = "application/json; charset=utf-8", tenant = "" })
    assert.matches("header tenant is missing", check { ["content-type"] = "application/json" })
    assert.matches("header content%-type is not like", check { ["content-type"] = "text/plain", tenant = "a" })
    local good = { ["content-type"] = "application/json", tenant = "a" }
    assert.matches("has 0 bytes; 1 to 65536", check(good, ""))
    assert.matches("has 65537 bytes", check(good, ("x"):rep(65537)))
  end)

  it("content_route goes by a header, or by the payload, else leaves the message alone", function()
    open("content_route", 'header = "region", pattern = "^eu", exchange = "orders-eu"')
    local function address(headers, payload)
      local m = assert(engine:filter { exchange = "orders", key = "k", headers = headers, payload = payload })
      return m.exchange .. " " .. m.key
    end
    assert.equal("orders-eu k", address({ region = "eu-west" }, '{"urgent":true}'))
    assert.equal("orders k", address({ region = "us" }))
    assert.equal("orders k", address({}))
    engine:close()
    support.remove_dir(dir)
    open("content_route", [[pattern = '"urgent"%s*:%s*true', key = "orders.urgent"]])
    assert.equal("orders orders.urgent", address({ region = "us" }, '{"urgent" : true}'))
    assert.equal("orders k", address({}, "x"))
    assert.equal("orders k", address({}, (" "):rep(1024) .. '"urgent":true'))
  end)
end)

describe("a dry run", function()
  it("loses what a strategy writes into its state, and the chance that was used", function()
    local dir = support.make_dir {
      ["sharding/deep.lua"] = [[
        return {
          new = function() return { n = 0, list = { 1, 2 }, sub = { deep = { 0 } }, gone = 1 } end,
          pick = function(_, _, _, s)
            s.n = s.n + 1
            s.list[#s.list + 1] = s.n
            s.sub.deep[1] = s.sub.deep[1] + 1
            s.gone = nil
            local keys = 0
            for k, v in pairs(s) do assert(s[k] == v) keys = keys + 1 end
            assert(keys == 3 and #s.list == 2 + s.n and s.sub.deep[1] == s.n, keys)
            return s.n * 1000 + tide.random(999)
          end,
        }]],
    }
    local engine = support.open { rules = dir }
    support.remove_dir(dir)
    local s = assert(engine:strategy("sharding", "deep"))
    local function pick()
      return assert(s:pick({}, 1000000))
    end
    assert.equal(1, pick() // 1000)
    engine:seed(7)
    local dry = engine:dry_run(function()
      return pick()
    end)
    assert.equal(2, dry // 1000)
    assert.equal(dry, pick())
    assert.matches('"calls":2', engine:status())
    s:close()
    engine:close()
  end)
end)
