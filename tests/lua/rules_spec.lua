-- Each shipped rule, in the real engine.

local support = require "lua.support.engine"

local route = support.route

describe("a shipped rule", function()
  local engine, opened

  before_each(function()
    engine, opened = support.open(), {}
  end)

  after_each(function()
    for _, object in ipairs(opened) do
      object:close()
    end
    engine:close()
  end)

  local function index(...)
    local x = assert(engine:index(...))
    opened[#opened + 1] = x
    return x
  end

  local function strategy(...)
    local s = assert(engine:strategy(...))
    opened[#opened + 1] = s
    return s
  end

  describe("routing/direct", function()
    it("takes the pattern for the key", function()
      local x = index("direct")
      assert(x:bind("a", 1))
      assert(x:bind("a", 2))
      assert(x:bind("b", 3))
      assert.same({ 1, 2 }, route(x, { key = "a" }))
      assert(x:unbind("a", 1))
      assert.same({ 2 }, route(x, { key = "a" }))
      assert(x:unbind("a", 2))
      assert.same({}, route(x, { key = "a" }))
      assert.is_true(x:is_pure())
    end)
  end)

  describe("routing/fanout", function()
    it("takes every binding, and two that lead to one place once", function()
      local x = index("fanout")
      assert(x:bind("a", 1))
      assert(x:bind("b", 1))
      assert(x:bind("c", 2))
      assert.same({ 1, 2 }, route(x, { key = "x" }))
      assert(x:unbind("a", 1))
      assert.same({ 1, 2 }, route(x, { key = "x" }))
      assert(x:unbind("b", 1))
      assert.same({ 2 }, route(x, { key = "x" }))
    end)
  end)

  describe("routing/topic", function()
    it("takes patterns of words", function()
      local x = index("topic")
      assert(x:bind("orders.*.eu", 1))
      assert(x:bind("orders.#", 2))
      assert.same({ 1, 2 }, route(x, { key = "orders.new.eu" }))
      assert.same({ 2 }, route(x, { key = "orders" }))
      assert(x:unbind("orders.#", 2))
      assert.same({}, route(x, { key = "orders" }))
    end)
  end)

  describe("routing/headers", function()
    it("wants all values, or any", function()
      local x = index("headers")
      assert(x:bind("-", 1, { region = "eu", kind = "order" }))
      assert(x:bind("-", 2, { region = "eu", kind = "order", match = "any" }))
      assert.same({ 1, 2 }, route(x, { headers = { region = "eu", kind = "order" } }))
      assert.same({ 2 }, route(x, { headers = { region = "eu", kind = "refund" } }))
      assert.same({}, route(x, { headers = { Region = "eu" } }))
    end)

    it("without values takes every message with all, none with any", function()
      local x = index("headers")
      assert(x:bind("-", 1))
      assert(x:bind("-", 2, { match = "any" }))
      assert.same({ 1 }, route(x, { headers = { a = "b" } }))
      assert.same({ 1 }, route(x, {}))
    end)

    it("tells bindings of one queue apart by their values", function()
      local x = index("headers")
      assert(x:bind("-", 1, { a = "1" }))
      assert(x:bind("-", 1, { a = "2" }))
      assert(x:unbind("-", 1, { a = "1" }))
      assert.same({}, route(x, { headers = { a = "1" } }))
      assert.same({ 1 }, route(x, { headers = { a = "2" } }))
    end)
  end)

  describe("routing/consistent-hash", function()
    local function owners(x, n)
      local found = {}
      for i = 1, n do
        local to = route(x, { key = "k" .. i })
        assert.equal(1, #to)
        found[i] = to[1]
      end
      return found
    end

    local function count(found, dest)
      local n = 0
      for _, d in ipairs(found) do
        n = n + (d == dest and 1 or 0)
      end
      return n
    end

    it("shares keys by weight, and moves none between bindings that stay", function()
      local x = index("consistent-hash")
      assert.same({}, route(x, { key = "a" }))
      assert(x:bind("1", 1))
      assert(x:bind("3", 2))
      assert(x:bind("", 3))
      local before = owners(x, 5000)
      for dest, share in pairs { [1] = 1000, [2] = 3000, [3] = 1000 } do
        assert.is_true(math.abs(count(before, dest) - share) < 200, dest .. ": " .. count(before, dest))
      end
      assert(x:bind("5", 4))
      local after = owners(x, 5000)
      for i = 1, 5000 do
        assert.is_true(after[i] == before[i] or after[i] == 4)
      end
      assert.is_true(math.abs(count(after, 4) - 2500) < 250)
      assert(x:unbind("5", 4))
      assert.same(before, owners(x, 5000))
      assert.is_true(x:is_pure())
    end)

    it("goes by a header when told, and is then not pure", function()
      local x = index("consistent-hash", { by = "customer" })
      for dest = 1, 8 do
        assert(x:bind("1", dest))
      end
      local seen = {}
      for i = 1, 50 do
        local to = route(x, { key = "k" .. i, headers = { customer = "7" } })
        seen[route(x, { key = "k", headers = { customer = tostring(i) } })[1]] = true
        assert.same(route(x, { key = "k", headers = { customer = "7" } }), to)
      end
      assert.is_not_nil(next(seen, next(seen)))
      assert.is_false(x:is_pure())
    end)

    it("takes weights for patterns", function()
      local x = index("consistent-hash")
      for _, bad in ipairs { "0", "-1", "1.5", "a", "1000001" } do
        local ok, err = x:bind(bad, 1)
        assert.is_nil(ok)
        assert.matches(("'%s' is no weight: write 1 to 1000000, or - for 1"):format(bad), err, 1, true)
      end
    end)
  end)

  describe("routing/random", function()
    it("takes one binding, each as often", function()
      local x, counts = index("random"), { 0, 0, 0 }
      assert.same({}, route(x, { key = "a" }))
      for dest = 1, 3 do
        assert(x:bind("", dest))
      end
      for _ = 1, 3000 do
        local to = route(x, { key = "a" })
        assert.equal(1, #to)
        counts[to[1]] = counts[to[1]] + 1
      end
      for dest = 1, 3 do
        assert.is_true(math.abs(counts[dest] - 1000) < 200, counts[dest])
      end
      assert(x:unbind("", 1))
      assert(x:unbind("", 3))
      assert.same({ 2 }, route(x, { key = "a" }))
    end)
  end)

  describe("sharding/hash", function()
    it("spreads keys evenly and keeps each where it is", function()
      local s, counts = strategy("sharding", "hash"), {}
      for i = 1, 8000 do
        local shard = assert(s:pick({ key = "customer." .. i }, 8))
        assert.equal(shard, s:pick({ key = "customer." .. i }, 8))
        counts[shard] = (counts[shard] or 0) + 1
      end
      for shard = 0, 7 do
        assert.is_true(math.abs(counts[shard] - 1000) < 150, counts[shard])
      end
    end)

    it("goes by a header when told, and is then not pure", function()
      local s = strategy("sharding", "hash", { by = "customer" })
      local a = s:pick({ key = "x", headers = { customer = "7" } }, 16)
      assert.equal(a, s:pick({ key = "y", headers = { customer = "7" } }, 16))
      assert.is_number(s:pick({ key = "y" }, 16))
      assert.is_false(s:is_pure())
      assert.is_true(strategy("sharding", "hash"):is_pure())
    end)

    it("keeps the documented hash", function()
      -- FNV-1a, MurmurHash3's finaliser, one bit less: see docs/rules-reference.md.
      local function documented(text)
        local h = 0xcbf29ce484222325
        for i = 1, #text do
          h = (h ~ text:byte(i)) * 0x100000001b3
        end
        h = (h ~ h >> 33) * 0xff51afd7ed558ccd
        h = (h ~ h >> 33) * 0xc4ceb9fe1a85ec53
        return (h ~ h >> 33) >> 1
      end
      local s = strategy("sharding", "hash")
      for _, key in ipairs { "a", "orders.new.eu", ("x"):rep(255) } do
        assert.equal(documented(key) % 1000003, s:pick({ key = key }, 1000003))
      end
    end)
  end)

  describe("sharding/round_robin", function()
    it("takes one shard after the other, also when their number changes", function()
      local s = strategy("sharding", "round_robin")
      local picked = {}
      for i = 1, 5 do
        picked[i] = s:pick({}, 3)
      end
      assert.same({ 0, 1, 2, 0, 1 }, picked)
      assert.equal(0, s:pick({}, 2))
    end)
  end)

  describe("priority/fifo", function()
    it("ranks all alike", function()
      local s = strategy("priority", "fifo")
      assert.equal(s:rank { priority = 0 }, s:rank { priority = 255 })
      assert.is_true(s:is_pure())
    end)
  end)

  describe("priority/strict", function()
    it("ranks the higher priority lower", function()
      local s = strategy("priority", "strict")
      for priority = 1, 255 do
        assert.is_true(s:rank { priority = priority } < s:rank { priority = priority - 1 })
      end
      assert.is_false(s:is_pure())
    end)
  end)

  describe("retry/immediate", function()
    it("does not wait, and gives up after max failures", function()
      local s = strategy("retry", "immediate", { max = 3 })
      assert.equal(0, s:decide({}, { failures = 2 }))
      assert.equal("dead-letter", s:decide({}, { failures = 3 }))
      local preset = strategy("retry", "immediate")
      assert.equal(0, preset:decide({}, { failures = 19 }))
      assert.equal("dead-letter", preset:decide({}, { failures = 20 }))
    end)
  end)

  describe("retry/exponential", function()
    it("waits longer each time, up to its cap", function()
      local s = strategy("retry", "exponential",
        { base = "100ms", factor = 3, cap = "5s", max = 10 })
      local delays = {}
      for failures = 1, 6 do
        delays[failures] = s:decide({}, { failures = failures })
      end
      assert.same({ 100, 300, 900, 2700, 5000, 5000 }, delays)
      assert.equal("dead-letter", s:decide({}, { failures = 10 }))
    end)

    it("starts at a second, doubles, stays below ten minutes", function()
      local s = strategy("retry", "exponential")
      assert.equal(1000, s:decide({}, { failures = 1 }))
      assert.equal(2000, s:decide({}, { failures = 2 }))
      assert.equal(600000, s:decide({}, { failures = 19 }))
      assert.equal("dead-letter", s:decide({}, { failures = 20 }))
    end)

    it("leaves a part of each delay to chance", function()
      local s = strategy("retry", "exponential", { base = "10s", jitter = 0.5 })
      engine:seed(1)
      local least, most = math.huge, 0
      for _ = 1, 1000 do
        local delay = s:decide({}, { failures = 1 })
        least, most = math.min(least, delay), math.max(most, delay)
      end
      assert.is_true(least >= 5000 and least < 5200, least)
      assert.is_true(most <= 10000 and most > 9800, most)
    end)

    it("repeats its delays with the same seed", function()
      local s = strategy("retry", "exponential", { base = "10s", jitter = 1 })
      engine:seed(42)
      local first = s:decide({}, { failures = 1 })
      engine:seed(42)
      assert.equal(first, s:decide({}, { failures = 1 }))
    end)

    it("refuses options that make no sense", function()
      local function refused(options)
        local s, message, code = engine:strategy("retry", "exponential", options)
        assert.is_nil(s)
        assert.equal("mismatch", code)
        return message
      end
      assert.matches("at least 1", refused { factor = 0.5 })
      assert.matches("at most 1", refused { jitter = 2 })
      assert.matches("duration", refused { base = "1 s" })
      assert.matches("it has base cap factor jitter max", refused { bse = "1s" })
    end)
  end)
end)
