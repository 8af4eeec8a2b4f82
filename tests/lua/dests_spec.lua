local dests = require "tide.dests"

local function list(set)
  local found = {}
  dests.each(set, function(dest) found[#found + 1] = dest end)
  table.sort(found)
  return found
end

describe("dests", function()
  it("holds each destination once", function()
    local set = dests.new()
    dests.add(set, 4)
    dests.add(set, 2)
    dests.add(set, 4)
    assert.same({ 2, 4 }, list(set))
  end)

  it("wants as many removals as there were additions", function()
    local set = dests.new()
    dests.add(set, 4)
    dests.add(set, 4)
    dests.add(set, 4)
    assert.is_true(dests.remove(set, 4))
    assert.is_true(dests.remove(set, 4))
    assert.same({ 4 }, list(set))
    assert.is_true(dests.remove(set, 4))
    assert.same({}, list(set))
    assert.is_false(dests.remove(set, 4))
  end)

  it("agrees with a plain table, small and large", function()
    math.randomseed(7)
    local set, plain = dests.new(), {}
    for _ = 1, 5000 do
      local dest = math.random(40)
      if math.random() < 0.5 then
        dests.add(set, dest)
        plain[dest] = (plain[dest] or 0) + 1
      else
        assert.equal(plain[dest] ~= nil, dests.remove(set, dest))
        plain[dest] = plain[dest] and plain[dest] > 1 and plain[dest] - 1 or nil
      end
      local expected = {}
      for d in pairs(plain) do
        expected[#expected + 1] = d
      end
      table.sort(expected)
      assert.same(expected, list(set))
    end
  end)
end)
