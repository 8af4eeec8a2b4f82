-- What strategies keep in their `state`, from one generation to the next.

local support = require "lua.support.engine"
local json = require "dkjson"

describe("carry", function()
  local engine, dir, opened

  before_each(function() opened = {} end)
  after_each(function()
    for _, object in ipairs(opened) do object:close() end
    if engine then engine:close() end
    if dir then support.remove_dir(dir) end
    engine, dir = nil, nil
  end)

  local function write(text)
    local file = assert(io.open(dir .. "/priority/mine.lua", "w"))
    file:write(text)
    file:close()
  end

  --- A use of a priority script; gives what its rank gives.
  local function script(text, options)
    dir = support.make_dir { ["priority/mine.lua"] = text }
    engine = support.open { rules = dir, memory_bytes = options and options.memory_bytes }
    local s = assert(engine:strategy("priority", "mine"))
    opened[#opened + 1] = s
    return function()
      return s:rank {}
    end
  end

  local function status()
    for _, s in ipairs(json.decode(engine:status()).scripts) do
      if s.file == "priority/mine.lua" then return s end
    end
  end

  local COUNT = [[return {
    new = function() return { n = 0 } end,
    %s
    rank = function(_, _, _, state) state.n = state.n + 1 return state.n end,
  }]]

  it("takes a state into the next generation, and without it one begins anew", function()
    local rank = script(COUNT:format "carry = function(old) return old end,")
    assert.equal(1, rank())
    assert(engine:reload())
    assert.equal(2, rank())
    assert(engine:reload())
    assert(engine:reload())
    assert.equal(3, rank())
    write(COUNT:format "")
    assert(engine:reload())
    assert.equal(1, rank())
    -- What the file before had no function for is there all the same.
    write(COUNT:format "carry = function(old) return { n = old.n + 100 } end,")
    assert(engine:reload())
    assert.equal(102, rank())
  end)

  it("is each use's own, with its options", function()
    dir = support.make_dir { ["priority/mine.lua"] = [[return {
      options = { from = { type = "integer", default = 0 } },
      new = function(opts) return { n = opts.from } end,
      carry = function(old, opts) assert(old.n >= opts.from) return { n = old.n + opts.from } end,
      rank = function(_, _, _, state) state.n = state.n + 1 return state.n end,
    }]] }
    engine = support.open { rules = dir }
    local uses = {}
    for i = 1, 20 do
      uses[i] = assert(engine:strategy("priority", "mine", { from = tostring(i * 1000) }))
    end
    for i, use in ipairs(uses) do
      for n = 1, i do assert.equal(i * 1000 + n, use:rank {}) end
    end
    -- A number that is free and taken again is another use.
    uses[7]:close()
    uses[7] = assert(engine:strategy("priority", "mine", { from = "7000" }))
    assert(engine:reload())
    uses[8]:close()
    uses[8] = assert(engine:strategy("priority", "mine", { from = "8000" }))
    for i, use in ipairs(uses) do
      local expected = i == 7 and 14001 or i == 8 and 8001 or 2 * i * 1000 + i + 1
      assert.equal(expected, use:rank {})
      use:close()
    end
  end)

  it("copies tables in tables, texts, numbers and booleans, each of them once; the rest is left out", function()
    local rank = script [[
      local function build()
        local list = { 1, 2.5, "a\0b", true, false, math.huge, math.mininteger }
        local t = { list = list, again = list, [1.5] = "x", [-3] = "y", [true] = "yes", ["\0"] = 0 }
        t.deep = { { { t } } }
        return t
      end
      local function check(t)
        assert(t.list == t.again and t.deep[1][1][1] == t)
        assert(t[1.5] == "x" and t[-3] == "y" and t[true] == "yes" and t["\0"] == 0)
        assert(#t.list == 7 and t.list[3] == "a\0b" and t.list[4] == true and t.list[5] == false)
        assert(math.type(t.list[1]) == "integer" and math.type(t.list[2]) == "float")
        assert(t.list[6] == math.huge and t.list[7] == math.mininteger)
        assert(t.f == nil and t.list[8] == nil and getmetatable(t) == nil)
        local n = 0
        for _ in pairs(t) do n = n + 1 end
        assert(n == 7, n)
      end
      return {
        new = function()
          local t = setmetatable(build(), { __index = function() error "asked" end, __pairs = error })
          t.f, t[print], t[{}], t.list[8] = print, 1, 2, print
          return t
        end,
        carry = function(old) check(old) return { old = old } end,
        rank = function(_, _, _, state)
          if not rawget(state, "old") then return 0 end
          check(state.old)
          return 1
        end,
      }]]
    assert.equal(0, rank())
    assert(engine:reload())
    assert.equal(1, rank())
    assert.equal(0, status().errors, status().last_error)
  end)

  it("that fails, or gives nothing, leaves what `new` has made", function()
    local rank = script(COUNT:format "carry = function(old) return old end,")
    rank()
    write(COUNT:format "carry = function(old) old.n = 50 error 'not that' end,")
    assert(engine:reload())
    assert.equal(1, rank())
    assert.equal(1, status().errors)
    assert.matches("^priority/mine.lua:3: not that$", status().last_error)
    write(COUNT:format "carry = function() end,")
    assert(engine:reload())
    assert.equal(1, rank())
    write(COUNT:format "carry = function() while true do end end,")
    assert(engine:reload())
    assert.equal(1, rank())
    assert.equal(2, status().errors)
  end)

  it("is bounded in depth and number, and does not fill the memory of generation after generation", function()
    local rank = script [[return {
      new = function()
        local t = {}
        for _ = 1, 100 do t = { t } end
        return { t = t }
      end,
      carry = function() return { is_old = true } end,
      rank = function(_, _, _, state) return state.is_old and 1 or 0 end,
    }]]
    assert(engine:reload())
    assert.equal(0, rank())
    assert.matches("a carried state may nest at most 64 tables", status().last_error)
    write [[return {
      new = function() return {} end,
      carry = function(old) return old end,
      rank = function(_, _, _, state)
        for i = 1, 1000001 do state[i] = i end
        return #state
      end,
    }]]
    assert(engine:reload())
    assert.equal(1000001, rank())
    assert(engine:reload())
    assert.matches("a carried state has at most 1000000 keys and values", status().last_error)
  end)

  it("begins anew when what was kept has used up the memory", function()
    local rank = script([[return {
      new = function() return {} end,
      carry = function(old) return old end,
      rank = function(_, _, _, state)
        for _ = 1, 100 do state[#state + 1] = ("x"):rep(1000) .. #state end
        return #state
      end,
    }]], { memory_bytes = 4 * 1024 * 1024 })
    repeat until not rank()
    assert(engine:reload())
    assert.equal(100, rank())
    assert(engine:reload())
    assert.equal(200, rank())
  end)

  it("is called by an EXPLAIN too, and not lost with it", function()
    local rank = script(COUNT:format [[
      carry = function(old) assert(not tide.is_dry_run()) return old end,]])
    rank()
    assert(engine:reload())
    assert.equal(2, engine:dry_run(rank))
    assert.equal(2, rank())
  end)

  it("needs `new`, and belongs to scripts with a state", function()
    for file, case in pairs {
      ["priority/mine.lua"] = { "return { rank = print, carry = print }",
        "'carry' replaces the state of 'new'; this script has no 'new'" },
      ["retry/mine.lua"] = { "return { decide = print, new = print, carry = 5 }",
        "a retry script needs a function 'carry'; here it is number" },
      ["routing/mine.lua"] = { "return { carry = print }", "a routing script has no 'carry'" },
      ["filter/mine.lua"] = { "return { publish = print, carry = print }",
        "'carry' replaces the state of 'new'; this script has no 'new'" },
    } do
      dir = support.make_dir { [file] = case[1] }
      local e, why = support.luatide.open { rules = dir }
      support.remove_dir(dir)
      dir = nil
      assert.is_nil(e)
      assert.is_truthy(why:find(case[2], 1, true), why)
    end
  end)
end)
