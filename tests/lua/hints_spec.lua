-- What errors of scripts say: what to use instead, and where it was.

local support = require "lua.support.engine"

describe("an error of a script", function()
  local engine, dir

  after_each(function()
    engine:close()
    support.remove_dir(dir)
  end)

  -- What a publish through a filter with this text fails with; the script's status too.
  local function fails(text, files)
    files = files or {}
    files["filter/10-x.lua"] = text
    dir = support.make_dir(files)
    engine = support.open { rules = dir, lua = "lua" }
    local msg, reason = engine:filter { key = "k", headers = { amount = "5" } }
    assert.is_nil(msg)
    local status = engine:status()
    return reason, status:match '"traceback":(%b[])'
  end

  local function in_publish(body)
    return fails("return { match = {}, publish = function(msg)\n" .. body .. "\nend }")
  end

  for body, hint in pairs {
    ["return os.time() > 1"] = "'time'%); scripts have no 'os.time': use tide.now%(%)",
    ["local os = os return os.time()"] = "'time'%); scripts have no 'os.time': use tide.now%(%)",
    ["io.write 'x'"] = "scripts have no 'io.write': use tide.log",
    ["return package.loaded.x"] = "scripts have no 'package.loaded': require gives what is loaded",
    ["coroutine.wrap(print)"] = "scripts have no 'coroutine.wrap': use a table",
    ["debug.getinfo(1)"] = "`tidemq rules show`",
    ["dofile 'x'"] = "scripts have no 'dofile': use require",
    ["return math.random(5) > 2"] = "'random'%); scripts have no 'math.random': use tide.random",
    ["string.dump(print)"] = "scripts have no 'string.dump'",
    ["unpack {}"] = "use table.unpack",
    ["return hash 'x' > 0"] = "'hash'%); did you mean tide.hash%?",
    ["return tide.nwo()"] = "there is no 'tide.nwo'; it has BURY DEAD_LETTER DROP .* now ",
    ["tide.base64.encod 'x'"] = "there is no 'tide.base64.encod'; it has decode encode$",
    ["tide.log.warning 'x'"] = "there is no 'tide.log.warning'; .*warn",
    ["return msg.heders.x"] = "there is no 'msg.heders'; it has",
  } do
    it("explains " .. body, function()
      local reason = in_publish(body)
      assert.matches("^filter/10%-x.lua:2: .*" .. hint, reason)
    end)
  end

  it("says no more than Lua about a field of a table of the script", function()
    assert.matches("field 'random'%)$", (in_publish "local t = {} t.random()"))
    assert.matches("global 'surprise'%)$", (in_publish "surprise()"))
    assert.matches("field 'flor'%)$", (in_publish "return math.flor(2)"))
  end)

  it("leaves tests for what may be missing alone", function()
    dir = support.make_dir { ["filter/10-x.lua"] = [[
      local unpack = unpack or table.unpack
      local random = math.random or function() return 4 end
      return { match = {}, publish = function(msg)
        msg.headers.n = unpack { random() }
        msg.headers.has = tostring(rawget(tide, "nothing"))
      end }]] }
    engine = support.open { rules = dir, lua = "lua" }
    local msg = assert(engine:filter { key = "k" })
    assert.same({ n = "4", has = "nil" }, msg.headers)
  end)

  for name, hint in pairs {
    ["my-mod"] = "no module 'my%-mod': .*; is it '_' instead of '%-'%?",
    ["cjson"] = "use tide.json",
    ["lib.x.lua"] = "write it without '.lua'",
    ["lib/x"] = "not the name of a module; write dots",
    ["rules.lib.x"] = 'require "lib.x"',
    ["tide.json"] = "what `tide` has needs no require",
  } do
    it("explains require " .. name, function()
      dir = support.make_dir { ["filter/10-x.lua"] = ("require %q\nreturn { publish = print }"):format(name) }
      local failed, reason = support.luatide.open { rules = dir, lua = "lua" }
      assert.is_nil(failed)
      assert.matches("^filter/10%-x.lua:1: .*" .. hint, reason)
      engine = { close = function() end }
    end)
  end

  it("has the stack of Lua", function()
    local _, stack = fails([[
      local amounts = require "amounts"
      return {
        match = {},
        publish = function(msg)
          local amount = amounts.of(msg)
          return amount > 5
        end,
      }]], { ["amounts.lua"] = [[
      local function parse(text)
        error "no amount"
      end
      return { of = function(msg)
        local amount = parse(msg.headers.amount)
        return amount
      end }]] })
    assert.equal('["in function \'error\' of C","amounts.lua:2: in function \'parse\'",'
      .. '"amounts.lua:5: in function \'of\'","filter/10-x.lua:5: in the function of line 4"]', stack)
  end)

  it("has a short stack of a function that calls itself without end", function()
    local reason, stack = in_publish "local function f() return 1 + f() end f()"
    assert.matches("stack overflow", reason)
    assert.matches("in upvalue 'f'\"", (stack:gsub("function", "upvalue")))
    assert.is_true(#stack < 1200)
  end)
end)
