-- The index of routing/headers.lua, against a plain list of bindings.

local seed = math.tointeger(tonumber(os.getenv("TIDE_TEST_SEED"))) or 1
local headers = dofile "rules/routing/headers.lua"

local function route(index, values)
  local found = {}
  headers.route(index, { headers = values }, function(dest) found[#found + 1] = dest end)
  table.sort(found)
  return found
end

local function mode_of(args)
  return args["x-match"] or args.match .. "-with-x"
end

-- The conditions that count: a value by header, or true.
local function conditions_of(args)
  local conditions = {}
  for option, value in pairs(args) do
    local name = option:gsub("^h[:?]", "")
    if option ~= "match" and option ~= "x-match"
      and (mode_of(args):find "with%-x" or not name:find "^x%-") then
      conditions[name] = option:find "^h%?" and true or value
    end
  end
  return conditions, mode_of(args):find "^any" ~= nil
end

-- The definition: every condition of every binding is looked at.
local function is_match(binding, values)
  for name, wanted in pairs(binding.conditions) do
    local holds = values[name] ~= nil and (wanted == true or values[name] == wanted)
    if holds == binding.is_any then
      return holds
    end
  end
  return not binding.is_any
end

local NAMES = { "a", "b", "x-c", "match" }
local FORMS = { "", "h:", "h?" }
local MODES = { "all", "any", "all-with-x", "any-with-x" }

local function random_args()
  local args = { match = math.random(2) == 1 and "any" or "all", ["x-match"] = MODES[math.random(8)] }
  for _, name in ipairs(NAMES) do
    -- A header of an option's name has a mark before it.
    local form = FORMS[math.random(name == "match" and 2 or 1, 3)]
    if math.random(2) == 1 then
      args[form .. name] = form == "h?" and "1" or "v" .. math.random(2)
    end
  end
  return args
end

-- Bindings with the same text mean the same.
local function text_of(binding)
  local words = { tostring(binding.is_any) }
  for name, wanted in pairs(binding.conditions) do
    words[#words + 1] = name .. "=" .. tostring(wanted)
  end
  table.sort(words)
  return table.concat(words, " ")
end

describe("routing by headers (seed " .. seed .. ")", function()
  it("agrees with a list, whatever is bound and unbound", function()
    math.randomseed(seed)
    local index, list = headers.new(), {}
    for _ = 1, 3000 do
      local b = {
        pattern = ("p%d"):format(math.random(2)),
        dest = math.random(5),
        args = random_args(),
      }
      b.conditions, b.is_any = conditions_of(b.args)
      local key = table.concat({ b.pattern, b.dest, text_of(b) }, ":")
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
      for _, name in ipairs(NAMES) do
        values[name] = ({ "v1", "v2" })[math.random(3)]
      end
      for _, other in pairs(list) do
        if is_match(other, values) then
          expected[#expected + 1] = other.dest
        end
      end
      table.sort(expected)
      assert.equal(table.concat(expected, " "), table.concat(route(index, values), " "))
    end
    for _, b in pairs(list) do
      headers.unbind(index, b.pattern, b.dest, b.args)
    end
    assert.same({}, route(index, { a = "v1", b = "v2", ["x-c"] = "v1" }))
    assert.is_nil(next(index.first_of))
    assert.is_nil(next(index.lists_of))
    assert.equal(0, index.unconditional.n)
  end)

  it("refuses what has no meaning", function()
    for args, text in pairs {
      [{ ["h:a"] = "1", a = "2" }] = "the header 'a' has two conditions",
      [{ ["h:a"] = "1", ["h?a"] = "1" }] = "the header 'a' has two conditions",
      [{ ["h?a"] = "2" }] = "'h?a' takes no value; a header with a value is 'h:a=...'",
      [{ ["h:"] = "2" }] = "the name of the header is missing after 'h:'",
      [{ ["h?"] = "1" }] = "the name of the header is missing after 'h?'",
    } do
      args.match = "all"
      local ok, err = pcall(headers.bind, headers.new(), "", 1, args)
      assert.same({ false, text }, { ok, err })
    end
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
