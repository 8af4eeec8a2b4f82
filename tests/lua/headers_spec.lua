-- The index of routing/headers.lua, against a plain list of bindings.

local seed = math.tointeger(tonumber(os.getenv("TIDE_TEST_SEED"))) or os.time()
local headers = dofile "rules/routing/headers.lua"

local function route(index, values)
  local found = {}
  headers.route(index, { headers = values }, function(dest) found[#found + 1] = dest end)
  table.sort(found)
  return found
end

describe("routing by headers (seed " .. seed .. ")", function()
  it("agrees with a list, whatever is bound and unbound", function()
    math.randomseed(seed)
    local index, list = headers.new(), {}
    for _ = 1, 5000 do
      local b = {
        pattern = ("p%d"):format(math.random(2)),
        dest = math.random(5),
        args = { match = math.random(2) == 1 and "any" or "all", ["h" .. math.random(2)] = "v" .. math.random(2) },
      }
      local key = b.pattern .. b.dest .. b.args.match .. (b.args.h1 or "") .. ":" .. (b.args.h2 or "")
      if list[key] then
        headers.unbind(index, b.pattern, b.dest, b.args)
        list[key] = nil
      elseif math.random(4) == 1 then
        headers.unbind(index, b.pattern, b.dest, b.args) -- none like it is there
      else
        headers.bind(index, b.pattern, b.dest, b.args)
        list[key] = b
      end
      local expected = {}
      for _, other in pairs(list) do
        if other.args.h1 == "v1" or other.args.h2 == "v2" then
          expected[#expected + 1] = other.dest
        end
      end
      table.sort(expected)
      assert.same(expected, route(index, { h1 = "v1", h2 = "v2" }))
    end
    for _, b in pairs(list) do
      headers.unbind(index, b.pattern, b.dest, b.args)
    end
    assert.same({}, route(index, { h1 = "v1", h2 = "v2" }))
    assert.is_nil(next(index.first_of))
  end)

  it("loses one of very many at once", function() -- minutes, were each a look along the list
    local N, index, args = 300000, headers.new(), { match = "all", kind = "x" }
    for dest = 1, N do
      headers.bind(index, "", dest, args)
    end
    for dest = 1, N // 3 do
      headers.unbind(index, "", dest, args)
    end
    for dest = N, 2 * N // 3 + 1, -1 do
      headers.unbind(index, "", dest, args)
    end
    assert.equal(N // 3, #route(index, { kind = "x" }))
  end)
end)
