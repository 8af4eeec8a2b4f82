-- docs/cookbook.md shows the rules of examples/cookbook as they are, and each has a spec.
-- (`tidemq test examples/cookbook` runs those: examples_spec.)

local support = require "lua.support.engine"

local function read(path)
  local file = assert(io.open(path))
  local text = file:read("a")
  file:close()
  return text
end

local function files(pattern)
  local found = {}
  local pipe = assert(io.popen("find examples/cookbook -name '" .. pattern .. "' | sort"))
  for path in pipe:lines() do
    found[#found + 1] = path
  end
  pipe:close()
  return found
end

describe("docs/cookbook.md", function()
  local doc = read("docs/cookbook.md")

  it("shows each rule as it is", function()
    local count = 0
    for _, path in ipairs(files("*.lua")) do
      if not path:find("_spec.lua$") then
        count = count + 1
        assert(doc:find("\n```lua\n" .. read(path) .. "```\n", 1, true), path .. " is not in the document")
        assert(doc:find("](../" .. path .. ")", 1, true), path .. " has no link")
        assert(io.open((path:gsub("%.lua$", "_spec.lua"))), path .. " has no spec"):close()
      end
    end
    local blocks = select(2, doc:gsub("\n```lua\n", ""))
    assert.equal(count, blocks)
    assert.is_true(count >= 20)
  end)

  it("has rules that stand side by side", function()
    support.open({ rules = "examples/cookbook", secrets = { webhook = "key" } }):close()
  end)
end)
