-- The files of the dashboard, as text: what keeps data from becoming code, and the page at home.
local lfs = require "lfs"

local dir = "core/http/page/"

local function files(suffix)
  local list = {}
  for name in lfs.dir(dir) do
    if name:find(suffix .. "$") then list[#list + 1] = name end
  end
  table.sort(list)
  return list
end

local function read(name)
  local file = assert(io.open(dir .. name))
  local text = file:read "a"
  file:close()
  return text
end

describe("the dashboard", function()
  it("makes no code and no HTML of data", function()
    assert.is_true(#files "%.js" > 20)
    for _, name in ipairs(files "%.js") do
      local text = read(name)
      for _, word in ipairs { "innerHTML", "outerHTML", "insertAdjacentHTML", "document%.write", "DOMParser", "setHTML",
        "createContextualFragment", "%f[%w_]eval%f[^%w_]", "new Function", "javascript:" } do
        assert.is_nil(text:find(word), name .. ": " .. word)
      end
    end
  end)

  it("asks no other host", function()
    for _, name in ipairs(files "%.%a+") do
      for url in read(name):gmatch "https?://[%w./-]*" do
        assert.equal("http://www.w3.org/2000/svg", url, name)
      end
    end
  end)

  it("has no script or style in its HTML, which its policy forbids", function()
    local text = read "index.html"
    assert.is_nil(text:find "style=")
    assert.is_nil(text:find "%son%a+=")
    assert.is_nil(text:find "<script>")
    assert.is_nil(text:find "<style")
  end)

  it("imports only what is there", function()
    for _, name in ipairs(files "%.js") do
      for what, from in read(name):gmatch "import ({.-}) from '%./([%w_.]+)'" do
        local text = read(from)
        for symbol in what:gmatch "[%w_]+" do
          assert(text:find("export [%w ]*%f[%w_]" .. symbol .. "%f[^%w_]"), ("%s: %s of %s"):format(name, symbol, from))
        end
      end
    end
  end)

  it("has files that one can read at a sitting", function()
    for _, name in ipairs(files "%.js") do
      local _, lines = read(name):gsub("\n", "")
      assert.is_true(lines < 400, name)
    end
  end)
end)
