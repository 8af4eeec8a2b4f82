-- docs/guarantees.md names tests that exist.

local function read(path)
  local file = assert(io.open(path))
  local text = file:read("a")
  file:close()
  return text
end

describe("docs/guarantees.md", function()
  local text = read("docs/guarantees.md")

  it("names a test that exists for each promise", function()
    local count = 0
    for row in text:gmatch("\n(| [^\n]* |)") do
      local cells = {}
      for cell in row:gmatch("| ([^|]+) ") do
        cells[#cells + 1] = cell
      end
      if #cells == 4 and not row:find("^| promise") and not row:find("^| %-%-%-") then
        local path, name = cells[4]:match("^`([%w_/]+_spec%.lua)`: (.+)$")
        assert(path, "no test in: " .. row)
        assert(read("tests/" .. path):find("('" .. name, 1, true), path .. " has no test '" .. name .. "'")
        count = count + 1
      end
    end
    assert.is_true(count > 30, count)
  end)

  it("shows a picture that exists", function()
    for name in text:gmatch("%]%(([%w_]+%.svg)%)") do
      assert.truthy(read("docs/" .. name):find("<svg", 1, true))
    end
  end)
end)
