-- routing/content.lua in the real engine, against a plain list of bindings.

local support = require "lua.support.engine"

local seed = math.tointeger(tonumber(os.getenv("TIDE_TEST_SEED"))) or 1

describe("routing by content (seed " .. seed .. ")", function()
  local engine, index

  before_each(function()
    engine = support.open()
    index = assert(engine:index("content"))
  end)
  after_each(function()
    index:close()
    engine:close()
  end)

  -- Does a message meet the pattern?
  local function meets(pattern, payload, headers, key)
    assert(index:bind(pattern, 1))
    local found = assert(index:route { key = key or "k", headers = headers, payload = payload })
    assert(index:unbind(pattern, 1))
    return #found > 0
  end

  local ORDER <const> = [[{"id":7,"total":99.5,"count":3.0,"paid":true,"test":false,"none":null,"customer":{
    "country":"DE","name":"Anna Maria; x","tags":["b2c","gold"]},"items":[{"sku":"A-1"},{"sku":"B-2"}],"a.b":1}]]

  for pattern, expected in pairs {
    ["customer.country=DE"] = true, ["customer.country=AT"] = false, ["customer.country=AT|DE"] = true,
    ["customer.country!=AT|CH"] = true, ["customer.country!=AT|DE"] = false, ["customer.nothing!=x"] = false,
    ["id=7"] = true, ["count=3"] = true, ["total=99.5"] = true, ["paid=true"] = true, ["test=false"] = true,
    ["total>=99.5"] = true, ["total>99.5"] = false, ["total<100"] = true, ["total<=99"] = false,
    ["customer.country>1"] = false, ["customer>1"] = false,
    ["customer.email"] = false, ["!customer.email"] = true, ["customer"] = true, ["!customer"] = false,
    ["none"] = false, ["!none"] = true, ["test"] = true,
    ["customer.tags=gold"] = true, ["customer.tags=silver|b2c"] = true, ["customer.tags~gold.#"] = true,
    ["customer.tags=silver"] = false, ["customer.tags!=gold"] = true, ["customer.tags.2=gold"] = true,
    ["items.1.sku=A-1"] = true, ["items.3.sku"] = false, ["items.1.sku.x=1"] = false, ["a%2Eb=1"] = true,
    ["customer.name=Anna%20Maria%3B%20x"] = true,
    ["h:tier=gold"] = true, ["h:tier=none"] = false, ["h:size>9"] = true, ["h:none"] = false, ["!h:none"] = true,
    ["@key=orders.new"] = true, ["@key~orders.#"] = true, ["@key~#.old"] = false,
    ["@key~#.#.#"] = true, ["@key~#.#.new.#"] = true, ["items.0.sku"] = false,
    ["customer.country=DE;total>=100"] = false, ["customer.country=DE;total>=50;h:tier=gold;@key~orders.*"] = true,
    ["-"] = true, [""] = true,
  } do
    it(("%q"):format(pattern), function()
      assert.equal(expected, meets(pattern, ORDER, { tier = "gold", size = "10" }, "orders.new"))
    end)
  end

  it("goes by what can be read of the payload", function()
    for _, bad in ipairs {
      "18446744073709551615", "1e999", '"a\\u0000b"', '"\255"', '1,"bad":2',
    } do
      local payload = '{"a":1,"bad":' .. bad .. ',"z":{"b":"x"}}'
      assert.is_true(meets("a=1;z.b=x", payload), bad)
      assert.is_false(meets("bad", payload), bad)
    end
    assert.is_true(meets("a=1", '{"deep":' .. ("["):rep(40) .. ("]"):rep(40) .. ',"a":1}'))
    local payload = '{"a":1,"text":"' .. ("x"):rep(1024 * 1024) .. '","z":1}'
    assert.is_true(meets("a=1", payload))
    assert.is_false(meets("z=1", payload))
  end)

  it("looks at all elements of an array, also behind a null", function()
    for _, element in ipairs { "null", "1e999", "[]" } do
      local payload = '{"tags":["a",' .. element .. ',"c"]}'
      assert.is_true(meets("tags=c", payload), element)
      assert.is_true(meets("tags~c.#", payload), element)
      assert.is_false(meets("tags=b", payload), element)
    end
  end)

  it("takes a payload that is no JSON for one without members", function()
    assert.is_false(meets("a=1", "hello"))
    assert.is_true(meets("!a", "hello"))
    assert.is_true(meets("h:x=1;!a", "hello", { x = "1" }))
    assert.is_false(meets("a=1", "[1]"))
    assert.is_true(meets("1=7", "[7]"))
    assert.is_false(meets("a", "5"))
  end)

  it("refuses what has no meaning", function()
    for pattern, why in pairs {
      ["=1"] = "'=1' is no condition; write field=value", ["a=="] = "'a==' is no condition",
      ["a=1;"] = "'' is no condition", ["!a=1"] = "'!a=1' is no condition",
      ["a<x"] = "'a<x' compares with a number, not 'x'",
      ["a..b=1"] = "'a..b' has an empty word", ["@x=1"] = "'@x' is no field", ["h:=1"] = "'h:' is no field",
      ["a~x*"] = "wildcard",
    } do
      local _, message = index:bind(pattern, 1)
      assert.is_truthy(message and message:find(why, 1, true), pattern .. ": " .. tostring(message))
    end
    assert.same({}, index:route { key = "k", payload = '{"a":1}' })
  end)

  it("agrees with a list, whatever is bound and unbound", function()
    math.randomseed(seed)
    local CONDITIONS <const> = {
      ["a=1"] = function(m) return m.a == 1 end, ["a=2|3"] = function(m) return m.a == 2 or m.a == 3 end,
      ["b=1"] = function(m) return m.b == 1 end, ["b>1"] = function(m) return m.b and m.b > 1 end,
      ["!c"] = function(m) return not m.c end, ["c!=2"] = function(m) return m.c and m.c ~= 2 end,
    }
    local words, list = {}, {}
    for text in pairs(CONDITIONS) do words[#words + 1] = text end
    table.sort(words)
    for _ = 1, 2000 do
      local chosen = {}
      for _, text in ipairs(words) do
        if math.random(4) == 1 then chosen[#chosen + 1] = text end
      end
      local pattern, dest = #chosen > 0 and table.concat(chosen, ";") or "-", math.random(6)
      local key = pattern .. " " .. dest
      if list[key] then
        assert(index:unbind(pattern, dest))
        list[key] = nil
      else
        assert(index:bind(pattern, dest))
        list[key] = { chosen = chosen, dest = dest }
      end
      local m, members = {}, {}
      for _, name in ipairs { "a", "b", "c" } do
        m[name] = math.random(4)
        m[name] = m[name] < 4 and m[name] or nil
        if m[name] then members[#members + 1] = ('"%s":%d'):format(name, m[name]) end
      end
      local expected = {}
      for _, b in pairs(list) do
        local is_match = true
        for _, text in ipairs(b.chosen) do is_match = is_match and CONDITIONS[text](m) end
        if is_match then expected[b.dest] = true end
      end
      local found = {}
      for _, reached in ipairs(index:route { key = "k", payload = "{" .. table.concat(members, ",") .. "}" }) do
        found[reached] = true
      end
      assert.same(expected, found)
    end
    for key, b in pairs(list) do assert(index:unbind(key:match "^%S+", b.dest)) end
    assert.same({}, index:route { key = "k", payload = '{"a":1,"b":2,"c":3}' })
  end)

  it("is as quick with ten thousand bindings as with ten", function()
    local function cost(from, to)
      for dest = from, to do assert(index:bind(("tenant=t%d;total>=%d"):format(dest, dest % 10), dest)) end
      local msg, best = { key = "k", payload = '{"tenant":"t7","total":100}' }, math.huge
      for _ = 1, 5 do
        local started = os.clock()
        for _ = 1, 200 do assert.same({ 7 }, index:route(msg)) end
        best = math.min(best, os.clock() - started)
      end
      return best
    end
    local few = cost(1, 10)
    assert.is_true(cost(11, 10000) < 50 * few)
  end)
end)
