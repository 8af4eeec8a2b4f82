-- The index of routing/headers.lua, against a plain list of bindings.

local seed = math.tointeger(tonumber(os.getenv("TIDE_TEST_SEED"))) or os.time()
local headers = dofile "rules/routing/headers.lua"

local function route(index, values)
  local found = {}
  headers.route(index, { headers = values }, function(dest) found[#found + 1] = dest end)
  table.sort(found)
  return found
end

-- The definition: every binding is looked at.
local function is_match(args, values)
  local is_any = args.match == "any"
  for name, value in pairs(args) do
    if name ~= "match" and (values[name] == value) == is_any then
      return is_any
    end
  end
  return not is_any
end

describe("routing by headers (seed " .. seed .. ")", function()
  it("agrees with a list, whatever is bound and unbound", function()
    math.randomseed(seed)
    local index, list = headers.new(), {}
    for _ = 1, 5000 do
      local b = {
        pattern = ("p%d"):format(math.random(2)),
        dest = math.random(5),
        args = { match = math.random(2) == 1 and "any" or "all" },
      }
      for _ = 1, math.random(0, 3) do
        b.args["h" .. math.random(3)] = "v" .. math.random(2)
      end
      local a = b.args
      local key = table.concat({ b.pattern, b.dest, a.match, a.h1 or "", a.h2 or "", a.h3 or "" }, ":")
      if list[key] then
        headers.unbind(index, b.pattern, b.dest, b.args)
        list[key] = nil
      elseif math.random(4) == 1 then
        headers.unbind(index, b.pattern, b.dest, b.args) -- none like it is there
      else
        headers.bind(index, b.pattern, b.dest, b.args)
        list[key] = b
      end
      local values, expected = { other = "v1" }, {}
      for i = 1, 3 do
        values["h" .. i] = ({ "v1", "v2" })[math.random(3)]
      end
      for _, other in pairs(list) do
        if is_match(other.args, values) then
          expected[#expected + 1] = other.dest
        end
      end
      table.sort(expected)
      assert.same(expected, route(index, values))
    end
    for _, b in pairs(list) do
      headers.unbind(index, b.pattern, b.dest, b.args)
    end
    assert.same({}, route(index, { h1 = "v1", h2 = "v2" }))
    assert.is_nil(next(index.first_of))
    assert.is_nil(next(index.lists_of))
    assert.equal(0, index.unconditional.n)
  end)

  it("looks at no binding that wants other values", function()
    local index, looks = headers.new(), 0
    for dest = 1, 10000 do
      headers.bind(index, "", dest, { match = "all", kind = "order", tenant = "t" .. dest })
      headers.bind(index, "", -dest, { match = "any", tenant = "t" .. dest, other = "t" .. dest })
    end
    local counted = setmetatable({}, {
      __index = function(_, name) looks = looks + 1 return ({ kind = "order", tenant = "t7" })[name] end,
      __pairs = function() return pairs { kind = "order", tenant = "t7" } end,
    })
    local found = {}
    headers.route(index, { headers = counted }, function(dest) found[#found + 1] = dest end)
    table.sort(found)
    assert.same({ -7, 7 }, found)
    assert.is_true(looks < 10, looks)
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
