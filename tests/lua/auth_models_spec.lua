-- The models of examples/auth/, each with its own spec, as an author would run it.

local support = require "lua.support.engine"

local function read(path)
  local file = assert(io.open(path))
  local text = file:read("a")
  file:close()
  return text
end

describe("examples/auth", function()
  for _, name in ipairs { "hours", "jwt", "tenants" } do
    it("has " .. name .. ".lua, whose spec passes", function()
      local files = {}
      for _, suffix in ipairs { ".lua", "_spec.lua" } do
        files["auth/" .. name .. suffix] = read("examples/auth/" .. name .. suffix)
      end
      local dir = support.make_dir(files)
      local program = os.getenv("TIDEMQ") or "build/tidemq"
      local run = assert(io.popen(("%s test %s 2>&1"):format(program, dir)))
      local output = run:read("a")
      local is_ok = run:close()
      support.remove_dir(dir)
      assert(is_ok, output)
      assert.matches("1 spec, [1-9]%d* passed, 0 failed in ", output)
    end)
  end
end)
