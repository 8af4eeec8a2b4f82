-- tide.queue in the real engine: where it answers, and where it says why not.

local support = require "lua.support.engine"

describe("tide.queue", function()
  local engine, dir, opened

  before_each(function() opened = {} end)

  after_each(function()
    for _, object in ipairs(opened) do object:close() end
    if engine then engine:close() end
    support.remove_dir(dir)
    engine = nil
  end)

  local function open(files)
    dir = support.make_dir(files)
    engine = support.open { rules = dir }
    return engine
  end

  local function strategy(kind, name)
    local s = assert(engine:strategy(kind, name))
    opened[#opened + 1] = s
    return s
  end

  it("tells scripts that decide what a queue has", function()
    open {
      ["filter/f.lua"] = [[return { match = {}, publish = function(msg)
        local q = tide.queue(msg.key)
        msg.headers.told = q and table.concat({ q.ready, q.unacked, q.delayed, q.buried, q.consumers,
          q.messages, q.bytes, q.oldest_ms, q.in_rate, q.out_rate }, " ") or tostring(tide.queue(msg.key))
      end }]],
      ["retry/r.lua"] = "return { decide = function() return tide.queue('jobs').ready end }",
      ["priority/p.lua"] = "return { rank = function() return tide.queue('jobs').ready end }",
      ["sharding/s.lua"] = "return { pick = function() return tide.queue('jobs').ready end }",
      ["schedule/t.lua"] = [[return { every = "1m", run = function(broker)
        broker.publish { key = tostring(broker.queue("jobs").ready + tide.queue("jobs").ready) }
      end }]],
      ["auth/a.lua"] = [[return {
        authenticate = function() return tide.queue("jobs").ready < 6, "full" end,
        authorize = function(_, _, object) return tide.queue(object.name) ~= nil end }]],
    }
    assert.equal("nil", engine:filter({ key = "jobs" }).headers.told)
    engine:set_queue("jobs", { ready = 5, unacked = 4, delayed = 3, buried = 2, consumers = 1, messages = 14,
      bytes = 1000, oldest_ms = 77, in_rate = 1.5, out_rate = 0 })
    engine:set_queue("other", {})
    assert.equal("5 4 3 2 1 14 1000 77 1.5 0.0", engine:filter({ key = "jobs" }).headers.told)
    assert.equal("0 0 0 0 0 0 0 0 0.0 0.0", engine:filter({ key = "other" }).headers.told)
    assert.equal(5, strategy("retry", "r"):decide({}, { failures = 1 }))
    assert.equal(5, strategy("priority", "p"):rank({ key = "k" }, {}))
    assert.equal(5, strategy("sharding", "s"):pick({ key = "k" }, 100))
    assert.equal("10", engine:run("t", 0)[1].key)
    assert.equal("allow", (engine:authorize({ name = "bob" }, "write", { kind = "queue", name = "jobs" })))
    assert.equal("refuse", (engine:authorize({ name = "bob" }, "write", { kind = "queue", name = "none" })))
    engine:dry_run(function() assert.equal("5", engine:filter({ key = "jobs" }).headers.told:match("%S+")) end)
    engine:set_queue("jobs", { ready = 9 })
    assert.equal(9, strategy("retry", "r"):decide({}, { failures = 1 }))
    engine:set_queue("jobs")
    assert.equal("nil", engine:filter({ key = "jobs" }).headers.told)
  end)

  it("has nil for what it does not know", function()
    open { ["retry/r.lua"] = "return { decide = function() return tide.queue('t').bytes or tide.BURY end }" }
    engine:set_queue("t", { bytes = -1 })
    assert.equal("bury", strategy("retry", "r"):decide({}, { failures = 1 }))
  end)

  it("is read-only, of one call, and says what it has", function()
    open { ["retry/r.lua"] = [[
      local kept
      return { decide = function(msg)
        local q = tide.queue("jobs")
        if msg.key == "write" then q.ready = 1 end
        if msg.key == "wrong" then return q.lenght end
        if msg.key == "kept" then return kept.ready end
        kept = q
        return 0
      end }]] }
    engine:set_queue("jobs", { ready = 5 })
    local r = strategy("retry", "r")
    local function fails(key, why)
      local _, text = r:decide({ key = key }, { failures = 1 })
      assert.matches(why, text, 1, true)
    end
    fails("write", "retry/r.lua:4: 'tide.queue' is read-only here")
    fails("wrong", "retry/r.lua:5: there is no 'tide.queue.lenght'; it has ready delayed unacked buried")
    assert.equal(0, r:decide({ key = "x" }, { failures = 1 }))
    fails("kept", "retry/r.lua:6: this 'tide.queue' has expired")
  end)

  it("is not for pure and routing scripts, nor while files load", function()
    open {
      ["priority/p.lua"] = "return { pure = true, rank = function() return tide.queue('jobs').ready end }",
      ["routing/r.lua"] = [[return { new = function() return {} end, bind = function() end,
        unbind = function() end, route = function() tide.queue("jobs") end }]],
      ["routing/b.lua"] = [[return { new = function() return {} end, bind = function() tide.queue("jobs") end,
        unbind = function() end, route = function() end }]],
    }
    engine:set_queue("jobs", { ready = 5 })
    local _, why = strategy("priority", "p"):rank({ key = "k" }, {})
    assert.matches("a pure script may look at msg.key and msg.exchange alone, not at tide.queue()", why, 1, true)
    local index = assert(engine:index("r"))
    opened[#opened + 1] = index
    _, why = index:route { key = "k" }
    assert.matches("routing/r.lua:2: a routing script may not look at tide.queue(): a route depends on", why, 1, true)
    index = assert(engine:index("b"))
    opened[#opened + 1] = index
    _, why = index:bind("x", 1)
    assert.matches("routing/b.lua:1: tide.queue() answers while a script decides, not while it is loaded", why, 1, true)
    support.remove_dir(dir)
    dir = support.make_dir { ["filter/f.lua"] = "tide.queue('jobs') return { publish = function() end }" }
    local e
    e, why = support.luatide.open { rules = dir }
    assert.is_nil(e)
    assert.matches("filter/f.lua:1: tide.queue() answers while a script decides", why, 1, true)
  end)
end)
