-- tide.shared, tide.counter, tide.bucket, and schedules, in the real engine.

local support = require "lua.support.engine"

local NOW = 1790000000000

describe("what scripts share", function()
  local engine, dir, opened

  before_each(function()
    opened = {}
  end)

  after_each(function()
    for _, object in ipairs(opened) do object:close() end
    if engine then engine:close() end
    if dir then support.remove_dir(dir) end
    engine, dir = nil, nil
  end)

  --- An engine with a script for each text; gives functions that run them.
  local function scripts(options, ...)
    local files, picks = {}, {}
    for i, text in ipairs { ... } do
      files[("sharding/s%d.lua"):format(i)] = text:find("^%s*return")
        and text or ("return { pick = function(msg) %s\nreturn 0 end }"):format(text)
    end
    dir = support.make_dir(files)
    options.rules = dir
    engine = support.open(options)
    engine:set_now(NOW)
    for i = 1, select("#", ...) do
      local s = assert(engine:strategy("sharding", "s" .. i))
      opened[#opened + 1] = s
      picks[i] = function(key)
        return s:pick({ key = key or "k" }, 1000000)
      end
    end
    return table.unpack(picks)
  end

  describe("tide.shared", function()
    it("keeps strings, numbers and booleans", function()
      local run = scripts({}, [[
        local s = tide.shared
        assert(s.get("none") == nil and select("#", s.get("none")) == 0)
        s.set("s", "a\0b") assert(s.get("s") == "a\0b")
        s.set("i", 7) assert(math.type(s.get("i")) == "integer")
        s.set("f", 7.0) assert(math.type(s.get("f")) == "float")
        s.set("b", false) assert(s.get("b") == false)
        assert(s.incr("n") == 1 and s.incr("n", 4) == 5 and s.incr("n", -0.5) == 4.5)
        assert(s.add("a", 1) == true and s.add("a", 2) == false and s.get("a") == 1)
        assert(s.delete("a") == true and s.delete("a") == false)
        assert(s.add("a", 2))]])
      assert(run())
    end)

    it("compares and sets", function()
      local run = scripts({}, [[
        local cas, get = tide.shared.cas, tide.shared.get
        assert(cas("k", nil, "mine", "1m") == true and get("k") == "mine")
        local ok, other = cas("k", nil, "yours")
        assert(ok == false and other == "mine" and tide.shared.ttl("k") == 60000)
        ok, other = cas("k", "yours", "x")
        assert(ok == false and other == "mine")
        assert(cas("k", "mine", 7) and get("k") == 7 and tide.shared.ttl("k") == nil)
        assert(cas("k", 7.0, false) and get("k") == false) -- as == compares
        assert(not cas("k", nil, 1) and cas("k", false, nil) and get("k") == nil)
        ok, other = cas("k", false, 1)
        assert(ok == false and other == nil)]])
      assert(run())
    end)

    it("adds within bounds", function()
      local run = scripts({}, [[
        local incr = tide.shared.incr
        assert(incr("n", { max = 2 }) == 1 and incr("n", { max = 2 }) == 2)
        local ok, there = incr("n", { max = 2 })
        assert(ok == false and there == 2)
        ok, there = incr("n", { by = -3, min = 0 })
        assert(ok == false and there == 2 and incr("n", { by = -2, min = 0, max = 9 }) == 0)
        ok, there = incr("none", { by = 5, max = 4.5, ttl = "1s" })
        assert(ok == false and there == nil and tide.shared.get("none") == nil)
        assert(incr("none", { by = 4, max = 4.5, ttl = "1s" }) == 4)
        assert(tide.shared.ttl("none") == 1000)]])
      assert(run())
    end)

    it("tells and changes how long an entry stays", function()
      local run = scripts({}, [[
        local s = tide.shared
        assert(s.ttl("k") == nil and s.touch("k", "1s") == false)
        s.set("k", 1) assert(s.ttl("k") == nil)
        assert(s.touch("k", "2s") and s.ttl("k") == 2000 and s.get("k") == 1)
        assert(s.touch("k") and s.ttl("k") == nil)]])
      assert(run())
    end)

    it("lists keys by their prefix", function()
      local run = scripts({}, [[
        local s = tide.shared
        for _, key in ipairs { "b:2", "b:1", "a", "b:3" } do s.set(key, 1) end
        s.set("b:gone", 1, 1)
        tide.counter("b:counter"):incr()
        if msg.key == "fill" then
          for i = 1, 25000 do s.set("many:" .. i, i) end
        end]], [[
        local keys, cursor = tide.shared.list("b:")
        if msg.key == "few" then
          assert(table.concat(keys, ",") == "b:1,b:2,b:3" and cursor == nil)
          assert(#tide.shared.list() == 4 and #tide.shared.list("none") == 0)
        end
        local seen, count, steps = {}, 0, 0
        cursor = nil
        repeat
          keys, cursor = tide.shared.list("many:", cursor)
          steps = steps + 1
          for _, key in ipairs(keys) do
            assert(not seen[key])
            seen[key], count = true, count + 1
          end
        until not cursor
        assert(msg.key == "few" or count == 25000 and steps > 20, count)]])
      assert(run())
      engine:set_now(NOW + 1)
      local list = function(key) return opened[2]:pick({ key = key }, 1000000) end
      assert(list "few")
      assert(run "fill")
      assert(list "many")
    end)

    it("is one for all files, and outlives a reload", function()
      local write, read = scripts({}, 'tide.shared.incr("n")',
        'return { pick = function() return tide.shared.get("n") end }')
      assert(write())
      assert.equal(1, read())
      assert(engine:reload())
      assert(write())
      assert.equal(2, read())
    end)

    it("forgets after the time to live", function()
      local run = scripts({}, [[
        local s = tide.shared
        if msg.key == "set" then
          s.set("a", 1, "2s") s.set("b", 1, 2000) s.incr("n", 1, "2s")
        elseif msg.key == "there" then
          assert(s.get("a") and s.get("b") and s.incr("n", 1, "1h") == 2)
        else
          assert(not s.get("a") and not s.get("b") and s.add("n", 9))
        end]])
      assert(run "set")
      engine:set_now(NOW + 1999)
      assert(run "there")
      engine:set_now(NOW + 2000)
      assert(run "gone")
    end)

    it("refuses what it cannot keep, and says why", function()
      for code, message in pairs {
        ['tide.shared.set("k")'] = "a value must be a text, a number or a boolean",
        ['tide.shared.set("k", {})'] = "a value must be a text, a number or a boolean",
        ['tide.shared.set("", 1)'] = "a key must have 1 to 256 bytes",
        ['tide.shared.set(("k"):rep(257), 1)'] = "a key must have 1 to 256 bytes",
        ['tide.shared.set("k", ("x"):rep(65537))'] = "a text has at most 65536 bytes here",
        ['tide.shared.set("k", 1, 0)'] = "at least 1 millisecond",
        ['tide.shared.set("k", 1, "0s")'] = "at least 1 millisecond",
        ['tide.shared.set("k", 1, "soon")'] = "a duration is written 250ms",
        ['tide.shared.set("k", "x") tide.shared.incr("k")'] = "'k' is not a number but a string",
        ['tide.shared.incr("k", "1")'] = "number expected, got string",
        ['tide.shared.incr("k", { bye = 1 })'] = "incr has no 'bye'; it has by, ttl, min, max",
        ['tide.shared.incr("k", { by = 1 }, 1)'] = "'ttl' belongs into the table",
        ['tide.shared.incr("k", { max = "x" })'] = "number expected, got string",
        ['tide.shared.cas("k", {}, 1)'] = "a value must be a text, a number or a boolean",
        ['tide.shared.list("k", -1)'] = "a cursor is what `list` has returned",
        ['tide.counter("c"):incr(-1)'] = "a counter grows; what falls too is a gauge",
        ['tide.counter("c{")'] = "the name of a counter has 1 to 256 bytes, and no '{'",
        ['tide.counter("a b", { x = 1 })'] = "the name of a metric has up to 64 letters",
        ['tide.gauge("hits_total")'] = "nor end in _total",
        ['tide.gauge("g", { le = 1 })'] = "the name of a label has up to 32 letters",
        ['tide.gauge("g", { "x" })'] = "the name of a label has up to 32 letters",
        ['tide.gauge("g", { x = {} })'] = "the value of a label is a text, a number or a boolean, not a table",
        ['tide.gauge("g", { a = 1, b = 1, c = 1, d = 1, e = 1, f = 1, g = 1 })'] = "a metric has at most 6 labels",
        ['tide.gauge("g"):set(0/0)'] = "a metric takes finite numbers",
        ['tide.gauge("g"):set()'] = "number expected, got no value",
        ['tide.histogram("h", {})'] = "'buckets' is a list of 1 to 30 finite numbers",
        ['tide.histogram("h", { buckets = { 2, 1 } })'] = "each larger than the one before",
        ['tide.histogram("h", { bukkets = {} })'] = "a histogram has no 'bukkets'; it has buckets",
        ['tide.gauge("m"):set(1) tide.histogram("m", { buckets = { 1 } }):observe(1)'] =
          "'m' is a gauge in sharding/s1.lua",
        ['tide.shared.x = 1'] = "this table is read%-only",
        ['tide.counter("c").incr()'] = "call this as a method of a counter, with ':'",
        ['tide.counter("c").incr(tide.bucket("b", { rate = 1 }))'] = "method of a counter",
        ['tide.bucket("b", { rate = 1, brust = 2 })'] = "a bucket has no 'brust'; it has rate, burst",
        ['tide.bucket("b", { burst = 2 })'] = "'rate' is a number of tokens a second above 0",
        ['tide.bucket("b", { rate = "5/week" })'] = "'rate' is a number of tokens a second",
        ['tide.bucket("b", { rate = 1, burst = 0 })'] = "'burst' is how many tokens",
        ['tide.bucket("b", { rate = 1e-12, burst = 1e6 })'] = "at this 'rate' the bucket needs more than 30,000 years",
        ['tide.bucket("b", { rate = 1 }):take(2)'] = "never holds that many tokens",
      } do
        local run = scripts({}, code)
        local ok, text = run()
        assert.is_nil(ok, code)
        assert.matches("^sharding/s1.lua:1: ", text)
        assert.matches(message, text)
        opened[1]:close()
        engine:close()
        support.remove_dir(dir)
        opened = {}
      end
      engine, dir = nil, nil
    end)

    it("reaches its limit with an error and goes on", function()
      local run = scripts({ shared_entries = 2 }, 'tide.shared.set(msg.key, 1)')
      assert(run "a")
      assert(run "b")
      local ok, message = run "c"
      assert.is_nil(ok)
      assert.matches("tide.shared is full: 2 entries", message)
      assert(run "a")
    end)

    it("cannot be changed while files are loaded, which may come to nothing", function()
      scripts({}, 'return { pick = function() return 0 end }')
      for _, code in ipairs {
        'tide.shared.set("k", 1)', 'tide.shared.incr("k")', 'tide.counter("c"):incr()',
        'tide.bucket("b", { rate = 1 }):take()',
      } do
        local file = assert(io.open(dir .. "/sharding/s2.lua", "w"))
        file:write(code, "\nreturn { pick = function() return 0 end }")
        file:close()
        local ok, message = engine:reload()
        assert.is_nil(ok)
        assert.matches("s2.lua:1: tide.shared cannot be changed while files are loaded", message)
      end
    end)
  end)

  it("has counters, which the status shows", function()
    local run = scripts({}, [[
      return {
        pick = (function()
          local hits = tide.counter("hits")
          return function() hits:incr(2) return hits:get() end
        end)(),
      }]])
    assert.equal(2, run())
    assert.equal(4, run())
    assert(engine:reload())
    assert.equal(6, run())
    assert.matches('"counters":{"hits":6}', engine:status())
  end)

  it("has counters with labels", function()
    local run = scripts({}, [[
      return { pick = function(msg)
        return tide.counter("orders", { kind = msg.key, size = 7 }):incr()
      end }]])
    assert.equal(1, run "new")
    assert.equal(2, run "new")
    assert.equal(1, run 'a"b')
    assert.matches([["orders{kind=\"new\",size=\"7\"}":2]], engine:status(), 1, true)
    assert.matches([["orders{kind=\"a\\\"b\",size=\"7\"}":1]], engine:status(), 1, true)
  end)

  it("counts what is beyond the bounds of labels together", function()
    local run = scripts({}, [[
      tide.counter("orders", { who = msg.key }):incr()
      tide.gauge("seen", { who = msg.key }):incr()]])
    for i = 1, 520 do assert(run("k" .. i)) end
    assert(run "k1")
    for text, wanted in pairs {
      ['tide.counter("orders", { who = "other" })'] = 20, ['tide.counter("orders", { who = "k1" })'] = 2,
      ['tide.gauge("seen", { who = "other" })'] = 20, ['tide.gauge("seen", { who = "k1" })'] = 2,
    } do
      local file = assert(io.open(dir .. "/sharding/g.lua", "w"))
      file:write(("return { pick = function() return %s:get() // 1 | 0 end }"):format(text))
      file:close()
      assert(engine:reload())
      local s = assert(engine:strategy("sharding", "g"))
      local found = s:pick({ key = "k" }, 1000000)
      s:close()
      assert.equal(wanted, found, text)
    end
  end)

  describe("a gauge and a histogram", function()
    local METRICS = [[return (function()
      local g = tide.gauge("depth", { queue = "jobs" })
      local h = tide.histogram("bytes", { buckets = { 10, 100 } })
      return { pick = function(msg)
        if msg.key == "dry" then return 0 end
        g:set(4) g:incr() g:incr(-2.5)
        for _, size in ipairs { 5, 10, 11, 1000 } do h:observe(size) end
        return g:get() * 2 // 1 | 0
      end }
      end)()]]
    local function metrics() return engine:status():match '"metrics":(%b[])' end

    it("are in the status, and outlive a reload", function()
      local run = scripts({}, METRICS)
      assert.equal("[]", metrics())
      assert.equal(5, run())
      local wanted = '[{"name":"depth","labels":{"queue":"jobs"},"type":"gauge","file":"sharding/s1.lua","value":2.5},'
        .. '{"name":"bytes","labels":{},"type":"histogram","file":"sharding/s1.lua",'
        .. '"buckets":[[10,2],[100,3],[null,4]],"count":4,"sum":1026}]'
      assert.equal(wanted, metrics())
      assert(engine:reload())
      assert.equal(wanted, metrics())
    end)

    it("begin anew when the next generation says otherwise", function()
      local run = scripts({}, METRICS)
      assert(run())
      local file = assert(io.open(dir .. "/sharding/s1.lua", "w"))
      file:write((METRICS:gsub("10, 100", "50")))
      file:close()
      assert(engine:reload())
      assert(run())
      assert.matches('"buckets":%[%[50,3%],%[null,4%]%]', metrics())
    end)

    it("are left alone while files are loaded", function()
      scripts({}, 'return { pick = function() return 0 end }')
      local file = assert(io.open(dir .. "/sharding/s2.lua", "w"))
      file:write 'tide.gauge("g"):set(1) return { pick = function() return 0 end }'
      file:close()
      local ok, message = engine:reload()
      assert.is_nil(ok)
      assert.matches("s2.lua:1: a metric cannot be changed while files are loaded", message)
    end)
  end)

  it("is left alone by a simulation", function()
    dir = support.make_dir { ["retry/counting.lua"] = [[
      local failures = tide.counter("failures")
      return {
        decide = function()
          tide.gauge("g"):set(1)
          return failures:incr() < 5 and tide.shared.incr("n") * 1000 or tide.BURY
        end,
      }]] }
    engine = support.open { rules = dir }
    local timetable = assert(engine:simulate("counting", {}))
    assert.matches("4000", timetable)
    assert.matches("bury", timetable)
    assert.matches('"counters":{},"metrics":%[%]', engine:status())
    assert.matches('"shared":{"entries":0,', engine:status())
  end)

  describe("tide.bucket", function()
    --- Returns 0 for a token, else the milliseconds to wait.
    local TAKE = [[return {
      pick = function(msg)
        local ok, wait = tide.bucket("b", { %s }):take(tonumber(msg.key))
        return ok and 0 or wait
      end }]]

    it("gives its burst, then its rate", function()
      local take = scripts({}, TAKE:format "rate = 10, burst = 5")
      for _ = 1, 5 do assert.equal(0, take()) end
      assert.equal(100, take())
      engine:set_now(NOW + 99)
      assert.equal(1, take())
      engine:set_now(NOW + 100)
      assert.equal(0, take())
      assert.equal(100, take())
      assert.equal(300, take "3")
      engine:set_now(NOW + 100000)
      for _ = 1, 5 do assert.equal(0, take()) end
      assert.equal(100, take())
    end)

    it("keeps its rate exactly, over any time", function()
      local take = scripts({}, TAKE:format "rate = 7, burst = 3")
      local given = 0
      for ms = 0, 99999 do
        engine:set_now(NOW + ms)
        if take() == 0 then given = given + 1 end
      end
      -- 100 seconds at 7, and what it held.
      assert.is_true(given >= 702 and given <= 703, given)
    end)

    it("takes rates as texts", function()
      for rate, wait in pairs { ['"100/s"'] = 10, ['"60/m"'] = 1000, ['"5/10s"'] = 2000, ["0.5"] = 2000 } do
        local take = scripts({}, TAKE:format("burst = 1, rate = " .. rate))
        assert.equal(0, take())
        assert.equal(wait, take())
        opened[1]:close()
        engine:close()
        support.remove_dir(dir)
        opened = {}
      end
      engine, dir = nil, nil
    end)

    it("outlives a reload, and a clock that is set back", function()
      local take = scripts({}, TAKE:format "rate = 1, burst = 2")
      assert.equal(0, take "2")
      assert(engine:reload())
      assert.equal(1000, take())
      engine:set_now(NOW - 3600000)
      assert.equal(1000, take())
    end)

    it("gives tokens that it will have, when it is told how long one waits at most", function()
      local run, ask = scripts({}, [[
        local b = tide.bucket("b", { rate = 10, burst = 2 })
        assert(b:reserve(1, "300ms") == 0 and b:reserve(1, 300) == 0)
        assert(b:reserve(1, "300ms") == 100 and b:reserve(2, "300ms") == 300)
        local ok, wait = b:reserve(1, "300ms")
        assert(ok == false and wait == 400 and select(2, b:reserve(2, "300ms")) == 500)
        ok, wait = b:take()
        assert(ok == false and wait >= 100)
        assert(b:reserve(0, 1000) == 300)
        for wrong, what in pairs {
          ["a duration is written"] = "soon", ["the longest wait must be a duration"] = false,
        } do
          local done, why = pcall(b.reserve, b, 1, what or nil)
          assert(not done and why:find(wrong), why)
        end
        assert(not pcall(b.reserve, b, 3, 100))]], [[
        local b = tide.bucket("b", { rate = 10, burst = 2 })
        assert(b:reserve(1, "300ms") == (msg.key == "later" and 200 or false))]])
      assert(run())
      assert(engine:reload())
      engine:set_now(NOW + 200)
      assert(ask("later"))
      engine:set_now(NOW - 100000000) -- set back: it is no further ahead than it may be
      assert(ask())
    end)

    it("tells what it has left, and when it is full", function()
      local run = scripts({}, [[
        local b = tide.bucket("b", { rate = "10/s", burst = 5 })
        local function left(tokens, reset)
          local has, ms = b:left()
          assert(has == tokens and ms == reset and math.type(has) == "integer", has .. " " .. ms)
        end
        if msg.key == "later" then
          left(2, 250)
          assert(b:take(2))
          left(0, 450)
          assert(b:reserve(2, "1s") == 150)
          left(0, 650)
        else
          left(5, 0)
          assert(b:take(5))
          left(0, 500)
        end]])
      assert(run())
      engine:set_now(NOW + 250)
      assert(run("later"))
    end)

    it("leaves nothing behind when it is full", function()
      local run = scripts({ shared_entries = 10 }, [[
        tide.bucket(msg.key, { rate = 1 }):take()]])
      for i = 1, 1000 do
        engine:set_now(NOW + i * 200)
        assert(run("tenant-" .. i))
      end
    end)
  end)

  it("has a clock and chance that a test sets", function()
    local random = scripts({}, 'return { pick = function() return tide.random(1000000) - 1 end }')
    engine:seed(42)
    local first = { random(), random(), random() }
    engine:seed(42)
    assert.same(first, { random(), random(), random() })
  end)
end)

describe("a schedule", function()
  local engine, dir

  local function open(files)
    dir = support.make_dir(files)
    local e, message = support.luatide.open { rules = dir }
    engine = e
    return e, message
  end

  after_each(function()
    if engine then engine:close() end
    support.remove_dir(dir)
    engine = nil
  end)

  it("publishes what it wants, and sees tick and queues", function()
    assert(open { ["schedule/s.lua"] = [[
      return {
        doc = "a schedule", every = "5m", missed = "all", jitter = "10s",
        run = function(broker, tick)
          local jobs = broker.queue("jobs")
          assert(jobs.ready == 1 and jobs.delayed == 2 and jobs.consumers == 3)
          assert(broker.queue("other") == nil)
          broker.publish { key = "a", payload = tick.ms }
          broker.publish {
            exchange = "x", key = "b", payload = tostring(tick.missed), delay = "2s", priority = 7,
            headers = { one = "1", two = 2 },
          }
        end,
      }]] })
    engine:set_queue("jobs", { ready = 1, delayed = 2, consumers = 3 })
    local sent = engine:run("s", 300000, 4)
    for _, message in ipairs(sent) do message.id, message.due, message.expires = nil, nil, nil end
    assert.same({
      { exchange = "-", key = "a", payload = "300000", delay = 0, priority = 0, headers = {} },
      { exchange = "x", key = "b", payload = "4", delay = 2000, priority = 7, headers = { one = "1", two = "2" } },
    }, sent)
    local due = engine:next_run("s", 0)
    assert.is_true(due >= 300000 and due < 310000)
    assert.equal(due, engine:next_run("s", 299999))
    assert.not_equal(due - 300000, engine:next_run("s", 300000) - 600000)
  end)

  it("is told what is wrong with a message", function()
    for message, text in pairs {
      ["nil"] = "table expected, got nil",
      ["{ kee = 1 }"] = "a message has no 'kee'; it has exchange, key, payload",
      ["{ key = {} }"] = "'key' must be a text, not a table",
      ["{ key = 'a b' }"] = "'key' must be 1 to 255 bytes without white space",
      ["{ exchange = ' ' }"] = "'exchange' is not a name",
      ["{ delay = 'soon' }"] = "'delay' is 'soon'",
      ["{ delay = -1 }"] = "'delay' must be a duration",
      ["{ priority = 256 }"] = "'priority' must be an integer from 0 to 255",
      ["{ priority = 'x' }"] = "'priority' must be an integer from 0 to 255",
      ["{ headers = 1 }"] = "'headers' must be a table, not a number",
      ["{ headers = { 'x' } }"] = "headers must be texts by name",
      ["{ headers = { x = true } }"] = "headers must be texts by name",
      ["{ headers = { ['a b'] = 1 } }"] = "'a b' is not a name of a header",
      ["{ exchange = 'nowhere' }"] = "there is no exchange 'nowhere'",
      ["{ payload = ('x'):rep(2 ^ 20) .. 'x' }"] = "'payload' has at most 1024 KiB",
    } do
      assert(open { ["schedule/s.lua"] = ([[
        return { every = "1s", run = function(broker)
          broker.publish(%s)
        end }]]):format(message) })
      local ok, why = engine:run("s", 0)
      assert.is_nil(ok, message)
      assert.matches("^schedule/s.lua:2: .*" .. text, why)
      engine:close()
      support.remove_dir(dir)
    end
    open {}
  end)

  it("cannot use the broker beyond its run", function()
    assert(open {
      ["schedule/s.lua"] = [[
        local kept
        return { every = "1s", run = function(broker) kept = broker broker.publish = nil end }]],
      ["schedule/t.lua"] = [[
        local kept
        return { every = "1s", run = function(broker) kept = broker end,
          doc = "x" }]],
    })
    local ok, why = engine:run("s", 0)
    assert.is_nil(ok)
    assert.matches("this table is read%-only", why)
    assert.same({}, engine:run("t", 0))
  end)

  it("is refused with what is wrong in its declaration", function()
    for declaration, text in pairs {
      [""] = "a schedule needs either 'every' or 'cron'",
      ['every = "1s", cron = "* * * * *",'] = "a schedule needs either 'every' or 'cron'",
      ['every = 5,'] = "'every' must be a text, not a number",
      ['every = "often",'] = "'every' is 'often'; write 250ms, 30s",
      ['every = "1ms",'] = "'every' is 1ms; it must be at least 10ms",
      ['cron = "61 * * * *",'] = "'cron': '61' is not a valid minute",
      ['cron = "* * *",'] = "has 3 fields; expected 5",
      ['every = "1s", missed = "never",'] = "'missed' must be skip, once or all, not 'never'",
      ['every = "1s", jitter = "1s",'] = "'jitter' must be less than the time between two ticks",
      ['every = "1s", active = 1,'] = "'active' must be true or false, not a number",
      ['every = "1s", pure = true,'] = "a schedule script has no 'pure'",
      ['every = "1s", options = 5,'] = "options must be a table, not a number",
    } do
      local e, why = open { ["schedule/s.lua"] = ("return { %s run = function() end }"):format(declaration) }
      assert.is_nil(e, declaration)
      assert.matches("^schedule/s.lua:1: .*" .. text, why)
      support.remove_dir(dir)
    end
    local e, why = open { ["schedule/s.lua"] = 'return { every = "1s" }' }
    assert.is_nil(e)
    assert.matches("a schedule script needs a function 'run'", why)
  end)
end)

describe("the shipped schedules", function()
  it("load, do nothing by themselves, and run", function()
    local engine = support.open()
    local heartbeat = assert(engine:run("heartbeat", 60000))
    assert.equal("60000", heartbeat[1].payload)
    local report = assert(engine:run("nightly_report", 60000, 2))
    assert.equal("report of 60000, for 3 nights", report[1].payload)
    engine:close()
  end)
end)
