-- tide.json and msg.json, in the real engine.

local support = require "lua.support.engine"

describe("JSON in a script", function()
  local engine

  after_each(function()
    if engine then engine:close() end
    engine = nil
  end)

  local function open(files)
    if engine then engine:close() end
    local dir = support.make_dir(files)
    engine = support.open { rules = dir }
    support.remove_dir(dir)
  end

  -- What a filter answers, as text: it refuses each message with what it has to say.
  local function says(body, msg)
    open { ["filter/a.lua"] = "return { match = {}, publish = function(msg)\n" .. body .. "\nend }" }
    msg = msg or {}
    msg.exchange, msg.key = "x", "k"
    local result, message = engine:filter(msg)
    assert.is_nil(result, "the message was not refused")
    return (message:gsub(" %(filter/a.lua%)$", ""))
  end

  local function value(expression, payload)
    return says(("return false, (function(...) local t = {} for i = 1, select('#', ...) do " ..
      "t[i] = tostring((select(i, ...))) end return table.concat(t, ' ') end)(%s)"):format(expression),
      { payload = payload })
  end

  local function passed(body, msg)
    open { ["filter/a.lua"] = "return { match = {}, publish = function(msg)\n" .. body .. "\nend }" }
    msg.exchange, msg.key = "x", "k"
    return assert(engine:filter(msg))
  end

  describe("is read by tide.json.decode", function()
    it("into tables and values, large integers exact", function()
      for expression, result in pairs {
        ['tide.json.decode([[{"a":{"b":[1,2.5,"x",true]}}]]).a.b[2]'] = "2.5",
        ['tide.json.decode("9223372036854775807")'] = "9223372036854775807",
        ['tide.json.decode("-9223372036854775808")'] = "-9223372036854775808",
        ['math.type(tide.json.decode("12")), math.type(tide.json.decode("12.0"))'] = "integer float",
        ['tide.json.decode("\\"\\\\ud83d\\\\ude00\\\\t\\"")'] = "\u{1F600} ",
        ['#tide.json.decode("[[],{},3]")'] = "3",
      } do assert.equal(result, value(expression), expression) end
    end)

    it("where a null is nil, or tide.json.null", function()
      assert.equal("nil", value [[tide.json.decode('{"a":null}').a]])
      assert.equal("true", value [[tide.json.decode('{"a":null}', { null = true }).a == tide.json.null]])
      assert.equal("true 3", value
        [[(function(t) return t[2] == tide.json.null, #t end)(tide.json.decode('[1,null,3]', { null = true }))]])
      assert.matches("tide.json.decode has no 'nil'", value [[tide.json.decode("1", { ["nil"] = true })]])
    end)

    it("or not, with a sentence", function()
      for text, why in pairs {
        ["{"] = "this is not JSON: wrong at byte 2",
        [""] = "this is not JSON: wrong at byte 1",
        ["[1,]"] = "this is not JSON: wrong at byte 4",
        ['{"a":1,"b":2,"a":3}'] = "the JSON has a name twice in an object that ends at byte 19",
        ["9223372036854775808"] = "the JSON has an integer of more than 64 bits at byte 1",
        ["[1e999]"] = "the JSON has a number that is too large at byte 2",
        ["1 2"] = "this is not JSON: wrong at byte 3",
        ["01"] = "this is not JSON: wrong at byte 2",
      } do assert.equal(why, value(("select(2, tide.json.decode(%q))"):format(text)), text) end
      assert.equal("nil the JSON has a value deeper than 32 levels at byte 33",
        value '(function(s) return tide.json.decode(s) end)(("["):rep(33) .. ("]"):rep(33))')
      assert.matches("the text has more than 1 MiB", value 'tide.json.decode((" "):rep(1024 * 1024) .. "1")')
    end)
  end)

  describe("is written by tide.json.encode", function()
    it("with sorted names, and numbers that read back as themselves", function()
      for expression, result in pairs {
        ['{ b = 1, a = { c = true, [ "a b" ] = "x" }, aa = 0.1 }'] = '{"a":{"a b":"x","c":true},"aa":0.1,"b":1}',
        ["{ 1, 2.5, { 3 } }"] = "[1,2.5,[3]]",
        ["{}"] = "{}",
        ["tide.json.array {}"] = "[]",
        ["{ tide.json.null, 9223372036854775807 }"] = "[null,9223372036854775807]",
        ["1/3"] = "0.3333333333333333",
        ["10 / 2"] = "5",
        ['"a\\"\\n\\1\u{e4}"'] = '"a\\"\\n\\u0001\u{e4}"',
        ['tide.json.decode(\'{"b":[],"a":[1,{}]}\')'] = '{"a":[1,{}],"b":[]}',
        ["tide.json.array(tide.json.decode('[]'))"] = "[]",
      } do assert.equal(result, value("tide.json.encode(" .. expression .. ")"), expression) end
    end)

    it("or refused, with the place of what is wrong", function()
      for expression, why in pairs {
        ["{ a = { 1, { b = print } } }"] = "a.2.b is a function, which JSON cannot hold",
        ["{ [1] = 1, a = 2 }"] = "the value is a table with both texts and numbers as keys",
        ["{ a = { [1] = 1, [3] = 3 } }"] = "a is an array with gaps; tide.json.null fills one",
        ["{ [true] = 1 }"] = "the value is a table with the key true; keys are texts, or the numbers from 1 on",
        ["{ [0] = 1 }"] = "with the key 0",
        ["{ a = 0/0 }"] = "a is not a number %(NaN%)",
        ["math.huge"] = "the value is an infinite number",
        ['{ a = "\\255" }'] = "a is a text that is not UTF%-8",
        ['{ ["\\255"] = 1 }'] = "is a text that is not UTF%-8",
        ["(function() local t = {} t.t = t return t end)()"] = "nested deeper than 32 levels, or in itself",
        ['("x"):rep(1024 * 1024) .. "x"'] = "the value is a text of more than 1 MiB",
        ["(function() local t, x = {}, ('x'):rep(1000) for i = 1, 2000 do t[i] = x end return t end)()"] =
          "the JSON has more than 1024 KiB",
        ["nil"] = "the value is a nil, which JSON cannot hold",
        ["setmetatable({}, {}), tide.json.array(setmetatable({}, {}))"] = "this table has a metatable already",
        ["(function() local t = tide.json.array {} t.a = 1 return t end)()"] = "is an array with texts as keys",
      } do assert.matches(why, value("tide.json.encode(" .. expression .. ")"), expression) end
    end)

    it("of a table that a module shares", function()
      open {
        ["m.lua"] = "return { list = { 1, 2 }, name = 'x' }",
        ["filter/a.lua"] = [[local m = require "m"
          return { match = {}, publish = function() return false, tide.json.encode(m) end }]],
      }
      local _, message = engine:filter { exchange = "x", key = "k" }
      assert.matches('{"list":[1,2],"name":"x"}', message, 1, true)
    end)
  end)

  it("writes what a script keeps in a dry run, too", function()
    open { ["filter/a.lua"] = [[return {
      match = {},
      new = function() return { copy = { key = "c", headers = { h = "1" } }, list = { 1, { a = 2 } } } end,
      publish = function(msg, _, state)
        msg.json = state.list
        msg:copy(state.copy)
        state.list[2].a = 3
        state.list[3] = "new"
        msg.headers.later = tide.json.encode(state.list)
      end }]] }
    local function check()
      local msg = assert(engine:filter { exchange = "x" })
      assert.same({ '[1,{"a":2}]', '[1,{"a":3},"new"]' }, { msg.payload, msg.headers.later })
      assert.same({ "c", "1" }, { msg.copies[1].key, msg.copies[1].headers.h })
    end
    engine:dry_run(check)
    engine:dry_run(check)
    check()
  end)

  describe("is msg.json", function()
    local ORDER <const> = [[{"id":7,"customer":{"country":"DE","tags":["a",null,"c"]},"paid":true,"none":null}]]

    it("by fields, in loops, and with the functions of tables", function()
      for expression, result in pairs {
        ["msg.json.id, msg.json.customer.country, msg.json.paid"] = "7 DE true",
        ["msg.json.none, msg.json.other, msg.json[1], msg.json.customer.tags.x"] = "nil nil nil nil",
        ["#msg.json.customer.tags, msg.json.customer.tags[1], msg.json.customer.tags[2]"] = "3 a nil",
        ["msg.json.customer.tags[3], msg.json.customer.tags[4], msg.json.customer.tags[0]"] = "c nil nil",
        ["type(msg.json), type(msg.json.customer), rawlen(msg.json.customer.tags)"] = "table table 3",
        ["rawget(msg.json, 'id'), next(msg.json.customer)"] = "7 country DE",
        ["next(msg.json, 'paid')"] = "nil",
        ["getmetatable(msg.json)"] = "false",
        ["tide.json.encode(msg.json)"] =
          '{"customer":{"country":"DE","tags":["a",null,"c"]},"id":7,"none":null,"paid":true}',
        ["tide.json.encode { msg.json.customer.tags }"] = '[["a",null,"c"]]',
      } do assert.equal(result, value(expression, ORDER), expression) end
      assert.equal("customer,id=7,paid=true", says([[
        local all = {}
        for name, v in pairs(msg.json) do all[#all + 1] = type(v) == "table" and name or name .. "=" .. tostring(v) end
        table.sort(all)
        return false, table.concat(all, ",")]], { payload = ORDER }))
      assert.equal("1 10,2 20,3 30", says([[
        local all = {}
        for i, v in ipairs(msg.json) do all[#all + 1] = i .. " " .. v.n end
        return false, table.concat(all, ",")]], { payload = '[{"n":10},{"n":20},{"n":30}]' }))
      assert.equal("3 1 20", value("msg.json[3].n, msg.json[1].n, msg.json[2].m", '[{"n":1},{"m":20},{"n":3}]'))
    end)

    it("a value that is no table", function()
      assert.equal("text", value("msg.json", '"text"'))
      assert.equal("nil nil", value("msg.json, msg.json_error", "null"))
    end)

    it("read-only", function()
      assert.matches("'msg.json' is read%-only at all depths; for a copy to change: tide.json.decode%(msg.payload%)",
        says("msg.json.customer.country = 'FR'", { payload = ORDER }))
      assert.matches("'msg.json' is read%-only at all depths", says("rawset(msg.json, 'id', 1)", { payload = ORDER }))
      assert.matches("invalid key to 'next'", value("next(msg.json, 'x')", ORDER))
    end)

    it("nil for what is no JSON, and msg.json_error says why", function()
      assert.equal("nil this is not JSON: wrong at byte 1", value("msg.json, msg.json_error", "hello"))
      assert.equal("nil the payload has more than 1024 KiB", value("msg.json, msg.json_error", (" "):rep(1048577)))
      assert.equal("table nil", value("type(msg.json), msg.json_error", "[" .. (" "):rep(1048574) .. "]"))
      assert.equal("nil", value("msg.json_error", ORDER))
    end)

    it("what can be read, and msg.json_error says what cannot", function()
      for _, bad in ipairs {
        "18446744073709551615", "1e999", '"a\\u0000b"', '"\\ud800"', '"\255"', '1,"bad":2',
      } do
        local text = '{"a":{"b":7},"bad":' .. bad .. ',"list":[1,' .. bad:gsub(",.*", "") .. ',3],"z":9}'
        assert.matches("^7 nil 3 9 3 the JSON has an? .+ at byte %d+$",
          value("msg.json.a.b, msg.json.bad, msg.json.list[3], msg.json.z, #msg.json.list, msg.json_error", text))
        assert.equal("a list z", says([[local t = {} for k in pairs(msg.json) do t[#t + 1] = k end
          return false, table.concat(t, " ")]], { payload = text }))
        assert.matches("^nil the JSON has", value("tide.json.decode(msg.payload)", text))
        assert.matches("bad is a part of msg.json that cannot be read; msg.json_error says why",
          value("tide.json.encode(msg.json)", text))
      end
      local deep = '{"deep":' .. ("["):rep(40) .. ("]"):rep(40) .. ',"z":9}'
      assert.equal("9 1 the JSON has a value deeper than 32 levels at byte 40",
        value("msg.json.z, #msg.json.deep[1], msg.json_error", deep))
      assert.matches("list.2 is a part of msg.json that cannot",
        value("tide.json.encode(msg.json)", '{"list":[1,1e999]}'))
    end)

    it("the front of a payload of more than 1 MiB", function()
      local text = '{"a":{"b":7},"items":["' .. ("x"):rep(1024 * 1024) .. '"],"z":9}'
      assert.equal("7 nil nil the payload has more than 1024 KiB",
        value("msg.json.a.b, msg.json.items, msg.json.z, msg.json_error", text))
      assert.matches("the payload has more than 1024 KiB: what is read of it as 'msg.json' cannot be written",
        value("tide.json.encode(msg.json)", text))
      -- Up to there another payload is the same.
      open { ["filter/a.lua"] = [[return { match = {}, publish = function(msg)
        local front = msg.json.a.b
        msg.payload = msg.payload:sub(1, 1024 * 1024)
        return false, front .. " " .. msg.json_error
      end }]] }
      local _, message = engine:filter { exchange = "x", key = "k", payload = text }
      assert.matches("7 this is not JSON: wrong at byte 1048577", message)
    end)

    it("good for one call only", function()
      open { ["filter/a.lua"] = [[local kept
        return { match = {}, publish = function(msg)
          if kept then return false, kept.a end
          kept = msg.json
        end }]] }
      assert(engine:filter { exchange = "x", key = "k", payload = '{"a":1}' })
      local _, message = engine:filter { exchange = "x", key = "k", payload = '{"a":1}' }
      assert.matches("this part of 'msg.json' has expired", message)
    end)

    it("up to eight different ones in a call", function()
      local body = [[local views = {}
        for i = 1, %d do msg.payload = "[" .. i .. "]" views[i] = msg.json end
        return false, tostring(views[1][1] + views[%d][1])]]
      assert.equal("9", says(body:format(8, 8), {}))
      assert.matches("a call reads at most 8 different payloads as JSON", says(body:format(9, 9), {}))
    end)

    it("shared by the scripts of a publish, and fresh for the next message", function()
      open {
        ["filter/a.lua"] = "return { match = {}, publish = function(msg) msg.headers.a = msg.json.n end }",
        ["filter/b.lua"] = "return { match = {}, publish = function(msg) msg.headers.b = msg.json.n end }",
      }
      for n = 1, 20 do
        local result = assert(engine:filter { exchange = "x", key = "k", payload = ('{"n":%d}'):format(n) })
        assert.same({ a = tostring(n), b = tostring(n) }, result.headers)
      end
    end)

    it("not for a pure script", function()
      open { ["routing/r.lua"] = [[return { pure = true, new = function() return {} end, bind = function() end,
        unbind = function() end, route = function(_, msg) return msg.json end }]] }
      local index = assert(engine:index("r"))
      local _, message = index:route { key = "k", payload = "{}" }
      assert.matches("a pure script may look at msg.key and msg.exchange alone, not at msg.json", message)
    end)
  end)

  describe("is written as msg.json", function()
    it("and is the payload from there on", function()
      local result = passed([[
        local doc = msg.json
        msg.json = { total = doc.total * 2, country = doc.customer.country, tags = doc.customer.tags }
        msg.headers.size = msg.size
        msg.headers.total = msg.json.total
        msg.headers.old = doc.total]], { payload = '{"total":5,"customer":{"country":"DE","tags":["a"]}}' })
      assert.equal('{"country":"DE","tags":["a"],"total":10}', result.payload)
      assert.same({ size = tostring(#result.payload), total = "10", old = "5" }, result.headers)
    end)

    it("in a copy too", function()
      local result = passed("msg:copy { key = 'b', json = { n = msg.json.n + 1 } }", { payload = '{"n":1}' })
      assert.equal('{"n":2}', result.copies[1].payload)
      assert.equal('{"n":1}', result.payload)
    end)

    it("unless it cannot be, at the line of the script", function()
      assert.matches("filter/a.lua:3: a is a function, which JSON cannot hold",
        says("\nmsg.json = { a = print }", { payload = "{}" }))
      assert.matches("msg.json cannot be nil; tide.json.null writes a null", says("msg.json = nil", {}))
      assert.equal("null", passed("msg.json = tide.json.null", {}).payload)
    end)
  end)
end)
