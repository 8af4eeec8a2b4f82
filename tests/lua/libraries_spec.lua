-- Modules of the rules directory: how require finds them, what they may use, and that what
-- they share is read-only. And libraries of others, which were written for plain Lua.

local support = require "lua.support.engine"

-- An engine with these files, and a filter that refuses each message with what `value`
-- returns in it, as texts.
local function open(files, head, body)
  files["filter/a.lua"] = ([[
    %s
    return { match = {}, publish = function(msg)
      local function value() %s end
      local found = table.pack(value())
      for i = 1, found.n do found[i] = tostring(found[i]) end
      return false, "<" .. table.concat(found, " | ") .. ">"
    end }]]):format(head, body)
  local dir = support.make_dir(files)
  local engine, message = support.luatide.open { rules = dir }
  support.remove_dir(dir)
  if not engine then return nil, message end
  finally(function() engine:close() end)
  return engine
end

local function value(files, head, body)
  local engine, message = open(files, head, body)
  if not engine then return message end
  local _, reason = engine:filter { exchange = "x", key = "a.b" }
  return reason:match "^<(.*)> %(filter/a.lua%)$" or reason
end

describe("require", function()
  it("finds a folder's init.lua, unless there is a file of the name", function()
    local files = { ["lib/words/init.lua"] = "return { from = 'folder' }" }
    assert.equal("folder", value(files, "local w = require 'lib.words'", "return w.from"))
    files["lib/words.lua"] = "return { from = 'file' }"
    assert.equal("file", value(files, "local w = require 'lib.words'", "return w.from"))
  end)

  it("tells a module its name and its file", function()
    assert.equal("lib | lib/init.lua", value({ ["lib/init.lua"] = "local a, b = ... return { a, b }" },
      "local l = require 'lib'", "return l[1], l[2]"))
  end)

  it("gives the libraries, each file its own", function()
    assert.equal("true | true | nil", value({ ["m.lua"] = "string.mine = 1 return require 'string' == string" },
      "local m = require 'm'", "return m, require 'table' == table, string.mine"))
  end)

  it("says which files it looked for", function()
    assert.matches("^filter/a.lua:1: no module 'lib.x': .* has it as a file or as lib/x/init.lua",
      value({}, "require 'lib.x'", ""))
  end)
end)

describe("what a module shares is read-only:", function()
  local files = { ["m.lua"] = [[
    local class = { names = { "a" } }
    class.__index = class
    local M = { list = { { deep = 1 } }, class = class, globals = _G }
    function M.new() return setmetatable({}, class) end
    function M.guarded() return setmetatable({}, { __newindex = function() error("no", 0) end }) end
    function M.count() M.n = (M.n or 0) + 1 return M.n end
    function M.is(o) return getmetatable(o) == class end
    return M]] }

  for body, result in pairs {
    ["m.list[1].deep = 2"] = "this table is read%-only",
    ["m.list[2] = 2"] = "this table is read%-only",
    ["table.insert(m.list, 1)"] = "this table is read%-only",
    ["for _, v in ipairs(m.list) do v.deep = 2 end"] = "this table is read%-only",
    ["for _, v in pairs(m) do if type(v) == 'table' then v.x = 1 end end"] = "this table is read%-only",
    ["local _, v = next(m.list) v.x = 1"] = "this table is read%-only",
    ["rawget(m, 'list')[1] = 2"] = "this table is read%-only",
    ["rawset(m, 'x', 1)"] = "this table is read%-only",
    ["rawset(m.class, 'x', 1)"] = "this table is read%-only",
    ["m.globals.x = 1"] = "this table is read%-only",
    ["m.globals.string.x = 1"] = "this table is read%-only",
    ["load('x = 1', '=x', 't', m.globals)()"] = "^load%(x%)@filter/a.lua:1: this table is read%-only",
    ["getmetatable(m).__index = nil"] = "attempt to index a boolean",
    ["setmetatable(m, nil)"] = "cannot change a protected metatable",
    ["setmetatable(m.class, nil)"] = "cannot change a protected metatable",
    -- An object of a module leads to its class.
    ["getmetatable(m.new()).x = 1"] = "this table is read%-only",
    ["getmetatable(m.new()).__index.x = 1"] = "this table is read%-only",
    ["rawset(getmetatable(m.new()), '__index', nil)"] = "this table is read%-only",
    ["m.guarded().x = 1"] = "^no$",
    ["rawset(m.guarded(), 'x', 1)"] = "this table is read%-only",
  } do
    it(body, function()
      local found = value(files, "local m = require 'm'",
        "local ok, e = pcall(function() " .. body .. " end) error(e, 0)")
      assert.matches(result, (found:gsub("^filter/a.lua:3: ", "")))
    end)
  end

  for body, result in pairs {
    ["return m.list[1].deep, #m.list, rawlen(m.list), rawget(m.list, 1).deep"] = "1 | 1 | 1 | 1",
    ["return m.count() + m.count()"] = "3",
    ["local o = m.new() o.x = 1 return o.x, m.is(o), o.names[1]"] = "1 | true | a",
    ["local o = rawset(m.new(), 'x', 1) return o.x"] = "1",
    ["return getmetatable(m.new()).names[1]"] = "a",
    ["local mine = {} return getmetatable(setmetatable({}, mine)) == mine"] = "true",
  } do
    it(body, function()
      assert.equal(result, value(files, "local m = require 'm'", body))
    end)
  end

  it("but it may be called, compared and computed with", function()
    local callable = { ["m.lua"] = [[
      local function number(n)
        return setmetatable({ n = n }, { __call = function(self, x) return self.n + x end,
          __add = function(a, b) return a.n + b.n end, __lt = function(a, b) return a.n < b.n end,
          __eq = function(a, b) return a.n == b.n end, __tostring = function(a) return "#" .. a.n end,
          __unm = function(a) return -a.n end, __name = "number" })
      end
      return { one = number(1), two = number(2), also = number(2) }]] }
    assert.equal("11 | 3 | true | true | #2 | -1", value(callable, "local m = require 'm'",
      "return m.one(10), m.one + m.two, m.one < m.two, m.two == m.also, m.two, -m.one"))
  end)
end)

describe("a metatable", function()
  for body, result in pairs {
    ["local m = {} local o = setmetatable({}, m) m.__call = function() return 7 end return o()"] = "7",
    ["local m = {} local o = setmetatable({}, m) m.__index = { x = 7 } return o.x"] = "7",
    ["local m = {} local o = setmetatable({}, m) rawset(m, '__len', function() return 7 end) return #o"] = "7",
    ["local m = {} setmetatable({}, m) return getmetatable(m), next(m), #m"] = "nil | nil | 0",
    ["local m = {} setmetatable({}, m) m.x = 1 m[1] = 2 return m.x, #m, rawget(m, 'x')"] = "1 | 1 | 1",
    ["local m = {} setmetatable({}, m) setmetatable(m, { __index = { x = 7 } }) return m.x"] = "7",
  } do
    it(body, function()
      assert.equal(result, value({}, "", body))
    end)
  end
end)

describe("load", function()
  for body, result in pairs {
    ["return load('return ...')(7)"] = "7",
    ["mine = 7 return load('return mine')()"] = "7",
    ["load('mine = 7')() return mine"] = "7",
    ["return load('return x', '=x', 't', { x = 7 })()"] = "7",
    ["return load('x x')"] = "nil | load@filter/a.lua:1: syntax error near 'x'",
    ["return load('x x', '=my.template')"] = "nil | load(my_template)@filter/a.lua:1: syntax error near 'x'",
    ["return load('x x', 'x x')"] = "nil | load@filter/a.lua:1: syntax error near 'x'",
    ["return load('return 1', '=x', 'b')"] = "nil | attempt to load a text chunk (mode is 'b')",
    ["return load('\\27Lua')"] = "nil | load@filter/a.lua:1: is bytecode; a script must be Lua text",
    ["return select(2, pcall(load('error \"x\"')))"] = "load@filter/a.lua:1: x",
    ["return load('return load')() == load"] = "true",
  } do
    it(body, function()
      assert.equal(result, value({}, "", body))
    end)
  end

  it("names the file that called it, and the line there", function()
    assert.equal("load@filter/a.lua:2: attempt to index a nil value (global 'x') (called from filter/a.lua:4)",
      value({}, "", "\nload('\\nreturn x.y')()"))
  end)
end)

describe("libraries that are not there", function()
  it("are empty, so that modules that mention them load", function()
    assert.equal("nil | nil | nil | Lua 5.4 | /", value({ ["m.lua"] =
      "local wrap, time, stderr = coroutine.wrap, os.time, io.stderr return { wrap, time, stderr }" },
      "local m = require 'm'", "return m[1], m[2], m[3], _VERSION, package.config:sub(1, 1)"))
  end)

  it("but for a traceback, which names no address", function()
    local found = value({}, "", "return select(2, xpcall(error, debug.traceback, 'why'))")
    assert.matches("^why%sstack traceback:%s.*filter/a.lua:3: in local", found)
    assert.is_nil(found:find "0x")
  end)
end)

-- Those that the tests need themselves.
describe("a library of others:", function()
  local function file_of(name)
    local path = assert(package.searchpath(name, package.path))
    local file <close> = assert(io.open(path))
    return file:read "a"
  end

  for name, try in pairs {
    ["dkjson"] = { { "dkjson" }, "local j = require 'dkjson'", [[return (j.encode((j.decode '{"a":[1,2]}')))]],
      '{"a":[1,2]}' },
    ["say"] = { { "say" }, "local s = require 'say' s:set('a', 'b %s')", "return s('a', { 1 })", "b 1" },
    ["pl.class"] = { { "pl.class", "pl.compat" }, [[
      local class = require 'pl.class'
      local A = class()
      function A:_init(x) self.x = x end
      local B = class(A)]], "local b = B(3) return b.x, b:is_a(A), b:is_a() == B", "3 | true | true" },
    ["pl.template"] = { { "pl.template", "pl.utils", "pl.compat" }, "local t = require 'pl.template'",
      "return (t.substitute('$(a)!', { a = 1 }))", "1!" },
  } do
    it(name, function()
      local files = {}
      for _, module in ipairs(try[1]) do files[module:gsub("%.", "/") .. ".lua"] = file_of(module) end
      assert.equal(try[4], value(files, try[2], try[3]))
    end)
  end
end)
