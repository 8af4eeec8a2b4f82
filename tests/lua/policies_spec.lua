-- declare/: what policies may do, and the shipped one, in the real engine.

local support = require "lua.support.engine"

describe("a policy", function()
  local engine

  after_each(function()
    if engine then engine:close() end
    engine = nil
  end)

  -- An engine with these policies by name; a text is the body of declare for all.
  local function open(policies)
    local files = {}
    for name, text in pairs(policies) do
      if not text:find("return ", 1, true) or text:find("^%s*return false") then
        text = "return { match = {}, declare = function(what, opts)\n" .. text .. "\nend }"
      end
      files["declare/" .. name .. ".lua"] = text
    end
    local dir = support.make_dir(files)
    engine = support.open { rules = dir }
    support.remove_dir(dir)
  end

  it("sees what is declared and writes its options", function()
    open { a = [[
      assert(what.kind == "queue" and what.name == "jobs" and what.vhost == "v")
      assert(what.user == "bob" and what.type == nil)
      assert(what.options.ttl == "1h" and what.options.rate == "5/s" and what.options.none == nil)
      what.options.ttl = "2h"
      what.options.rate = nil
      what.options["max-length"] = 1e3
      what.options["auto-delete"] = true
      what.options["delivery-limit"] = 5]] }
    local options, files = engine:declare { kind = "queue", name = "jobs", vhost = "v", user = "bob",
      options = { ttl = "1h", rate = "5/s" } }
    assert.same({ ttl = "2h", ["max-length"] = "1000", ["auto-delete"] = "1", ["delivery-limit"] = "5" }, options)
    assert.equal("declare/a.lua", files)
  end)

  it("refuses", function()
    open { a = "return false, 'no such queues'", b = "what.options.ttl = '1h'" }
    local options, why, code = engine:declare { name = "q" }
    assert.is_nil(options)
    assert.equal("no such queues (declare/a.lua)", why)
    assert.equal("rejected", code)
  end)

  it("is asked in the order of names, and sees what others wrote", function()
    open { a = "what.options.ttl = '1h'", b = "assert(what.options.ttl == '1h') what.options.ttl = '2h'",
      c = "what.options.ttl = '2h'" }
    local options, files = engine:declare { name = "q" }
    assert.same({ ttl = "2h" }, options)
    assert.equal("declare/a.lua, declare/b.lua", files)
    options, files = engine:declare { kind = "exchange", type = "topic", name = "q" }
    assert.same({ ttl = "2h" }, options)
    assert.is_string(files)
  end)

  it("that changes nothing is not named", function()
    open { a = "what.options.ttl = what.options.ttl" }
    local options, files = engine:declare { name = "q", options = { ttl = "1h" } }
    assert.same({ ttl = "1h" }, options)
    assert.is_nil(files)
  end)

  it("that returns or writes what cannot be fails", function()
    for body, message in pairs {
      ["return 5 -- return"] = "declare must return nothing, or false and a reason to refuse",
      ["what.options = {}"] = "read%-only",
      ["what.options.ttl = print"] = "the option 'ttl' must be a text, a number or a boolean, not a function",
      ["what.options[5] = 'x'"] = "the names of options are texts",
      ["what.options['a b'] = 'x'"] = "one of the options is none, or too many",
    } do
      open { a = "return { match = {}, declare = function(what)\n" .. body .. "\nend }" }
      local options, why, code = engine:declare { name = "q" }
      assert.is_nil(options)
      assert.matches(message, why)
      assert.matches("^declare/a.lua:%d", why)
      assert.equal("rule", code)
      engine:close()
      engine = nil
    end
  end)

  describe("bounds", function()
    local file = assert(io.open("rules/declare/bounds.lua"))
    local model = file:read "a"
    file:close()

    local function bounds(options)
      open { bounds = model, ["10-jobs"] =
        ('return tide.use("bounds", { match = { queue = "jobs.#" }, options = { %s } })'):format(options) }
    end
    local function declare(options, kind)
      return engine:declare { kind = kind or "queue", name = "jobs.a", options = options }
    end

    it("gives defaults and an upper bound", function()
      bounds 'defaults = "retry=exponential,retry.max=5", most = "max-length=1000,ttl=7d"'
      assert.same({ retry = "exponential", ["retry.max"] = "5", ["max-length"] = "1000", ttl = "7d" }, (declare()))
      assert.same({ retry = "fixed", ["retry.max"] = "5", ["max-length"] = "10", ttl = "1.5h" },
        (declare { retry = "fixed", ["max-length"] = "10", ttl = "1.5h" }))
      assert.same({ retry = "exponential", ["retry.max"] = "5", ["max-length"] = "1000", ttl = "7d" },
        (declare { ["max-length"] = "1001", ttl = "8d" }))
      assert.same({ retry = "exponential", ["retry.max"] = "5", ["max-length"] = "1000", ttl = "7d" },
        (declare { ["max-length"] = "0", ttl = "0" }))
      assert.same({}, (declare({}, "topic")))
      assert.same({}, (engine:declare { name = "other" }))
    end)

    it("refuses what is more", function()
      bounds 'most = "ttl=1h", refuse = true'
      local options, why = declare { ttl = "61m" }
      assert.is_nil(options)
      assert.equal("ttl=61m: 1h is the most here (declare/10-jobs.lua)", why)
      assert.same({ ttl = "1h" }, (declare()))
      assert.same({ ttl = "60m" }, (declare { ttl = "60m" }))
    end)

    it("raises no option that has a smaller value by itself", function()
      bounds 'most = "delivery-limit=100,ack-timeout=5m"'
      assert.same({}, (declare()))
      assert.same({ ["ack-timeout"] = "5m", ["delivery-limit"] = "100" },
        (declare { ["ack-timeout"] = "10m", ["delivery-limit"] = "0" }))
      bounds 'most = "delivery-limit=10,ack-timeout=5s,death-limit=50,ack-timeout-max=1h"'
      assert.same({ ["ack-timeout"] = "5s", ["delivery-limit"] = "10", ["death-limit"] = "50",
        ["ack-timeout-max"] = "1h" }, (declare()))
    end)

    it("is for topics", function()
      bounds 'kind = "topic", most = "retention=30d"'
      assert.same({ retention = "30d" }, (declare({ retention = "0" }, "topic")))
      assert.same({}, (declare({}, "topic")))
      assert.same({}, (declare {}))
    end)

    it("is for exchanges", function()
      open { bounds = model, ["10-lost"] = [[return tide.use("bounds",
        { match = { exchange = "#" }, options = { kind = "exchange", defaults = "alternate=lost" } })]] }
      local function declare_exchange(options)
        return engine:declare { kind = "exchange", type = "topic", name = "x", options = options }
      end
      assert.same({ alternate = "lost" }, (declare_exchange {}))
      assert.same({ alternate = "other" }, (declare_exchange { alternate = "other" }))
    end)
  end)
end)
