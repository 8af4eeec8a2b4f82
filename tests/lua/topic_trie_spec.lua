local trie = require "tide.topic_trie"

local seed = math.tointeger(tonumber(os.getenv("TIDE_TEST_SEED"))) or 1

local function words_of(text)
  local words = {}
  if text ~= "" then
    for word in (text .. "."):gmatch("([^.]*)%.") do
      words[#words + 1] = word
    end
  end
  return words
end

-- The definition itself: no better than exponential, and plainly right.
local function is_match(pattern, key, i, j)
  i, j = i or 1, j or 1
  local word = pattern[i]
  if not word then
    return j > #key
  elseif word == "#" then
    return is_match(pattern, key, i + 1, j) or
      (j <= #key and is_match(pattern, key, i, j + 1))
  end
  return j <= #key and (word == "*" or word == key[j]) and
    is_match(pattern, key, i + 1, j + 1)
end

local function match(t, key)
  local found = {}
  trie.match(t, key, function(dest) found[#found + 1] = dest end)
  table.sort(found)
  return found
end

local function trie_of(...)
  local t = trie.new()
  for dest, pattern in ipairs { ... } do
    trie.insert(t, pattern, dest)
  end
  return t
end

describe("topic_trie", function()
  it("matches words as they are", function()
    local t = trie_of("a.b", "a", "a.b.c")
    assert.same({ 1 }, match(t, "a.b"))
    assert.same({ 2 }, match(t, "a"))
    assert.same({}, match(t, "b"))
  end)

  it("takes exactly one word for a star", function()
    local t = trie_of("*", "a.*", "*.b", "*.*")
    assert.same({ 2, 3, 4 }, match(t, "a.b"))
    assert.same({ 1 }, match(t, "a"))
    assert.same({}, match(t, "a.b.c"))
  end)

  it("takes any number of words for a hash", function()
    local t = trie_of("#", "a.#", "#.b", "a.#.b")
    assert.same({ 1, 2, 3, 4 }, match(t, "a.b"))
    assert.same({ 1, 2, 3, 4 }, match(t, "a.x.y.b"))
    assert.same({ 1, 2 }, match(t, "a"))
    assert.same({ 1 }, match(t, ""))
  end)

  it("gives a binding once, however many ways lead to it", function()
    local t = trie_of("#.a.#", "#.#", "#.*.#")
    assert.same({ 1, 2, 3 }, match(t, "a.a.a.a"))
  end)

  it("knows the same pattern in another spelling", function()
    local t = trie.new()
    trie.insert(t, "#.*", 1)
    assert.is_true(trie.remove(t, "*.#", 1))
    assert.same({}, match(t, "a"))
  end)

  it("counts empty words as words, and none in the empty key", function()
    local t = trie_of("a.*.b", "*", "", "a.*", "*.*", "a.#")
    assert.same({ 1, 6 }, match(t, "a..b"))
    assert.same({ 3 }, match(t, ""))
    assert.same({ 4, 5, 6 }, match(t, "a."))
    assert.same({ 5 }, match(t, "."))
  end)

  it("matches an empty word of a pattern by an empty word alone", function()
    local t = trie_of("a..b", ".a", "a.", ".", "..", "#..a", "a.b")
    assert.same({ 1 }, match(t, "a..b"))
    assert.same({ 2, 6 }, match(t, ".a"))
    assert.same({ 3 }, match(t, "a."))
    assert.same({ 4 }, match(t, "."))
    assert.same({ 5 }, match(t, ".."))
    assert.same({ 6 }, match(t, "x.y..a"))
    assert.same({ 7 }, match(t, "a.b"))
    assert.same({}, match(t, "a"))
    assert.same({}, match(t, ""))
  end)

  it("refuses a wildcard inside a word", function()
    local wrong = { ["a*"] = "a*", ["x.#b"] = "#b", ["**.a"] = "**", ["a.##"] = "##", ["a.*#.b"] = "*#" }
    for pattern, word in pairs(wrong) do
      assert.same({ false, ("in the topic pattern '%s' the word '%s' has a wildcard in it; '*' and '#' are words of "
        .. "their own"):format(pattern, word) }, { pcall(trie.insert, trie.new(), pattern, 1) })
    end
  end)

  it("takes characters that are magic in Lua's patterns for what they are", function()
    local t = trie_of("%a.(b)", "[a]", "a-b")
    assert.same({ 1 }, match(t, "%a.(b)"))
    assert.same({ 2 }, match(t, "[a]"))
    assert.same({ 3 }, match(t, "a-b"))
    assert.same({}, match(t, "a"))
  end)

  it("keeps stars and hashes in keys apart from those in patterns", function()
    local t = trie_of("a.b", "a.*", "#")
    assert.same({ 2, 3 }, match(t, "a.*"))
    assert.same({ 2, 3 }, match(t, "a.#"))
  end)

  it("forgets what is removed and prunes what it leaves", function()
    local t = trie_of("a.b.c", "a.b", "a.#.c", "a.*.c")
    assert.is_true(trie.remove(t, "a.b.c", 1))
    assert.is_false(trie.remove(t, "a.b.c", 1))
    assert.is_false(trie.remove(t, "x.y", 1))
    assert.same({ 3, 4 }, match(t, "a.b.c"))
    assert.is_true(trie.remove(t, "a.b", 2))
    assert.is_true(trie.remove(t, "a.#.c", 3))
    assert.is_true(trie.remove(t, "a.*.c", 4))
    assert.equal(0, t.root.children)
    assert.same({}, match(t, "a.b.c"))
  end)

  it("is not slowed down by patterns that match in many ways", function()
    local t = trie_of("#.a" .. (".*"):rep(60) .. ".#.b")
    local started = os.clock()
    assert.same({}, match(t, ("a."):rep(200) .. "a"))
    assert.is_true(os.clock() - started < 1)
  end)

  it("refuses a pattern with more than two hashes, and takes two", function()
    local t = trie_of("#.a.#", "#.#.a.#.#", "#.*.a.#")
    local ok, message = pcall(trie.insert, t, "#.a.#.b.#", 4)
    assert.same({ false, "a topic pattern may have '#' 2 times, not 3: '#.a.#.b.#'" }, { ok, message })
    assert.same({ 1, 2, 3 }, match(t, "x.a"))
    assert.is_false(trie.remove(t, "#.a.#.b.#", 4))
  end)

  it("gives up a match of too many steps, and works for other keys", function()
    math.randomseed(seed)
    local t = trie.new()
    for dest = 1, 600 do
      local words = { "#" }
      for i = 2, 100 do
        words[i] = math.random(2) == 1 and "a" or "*"
      end
      trie.insert(t, table.concat(words, ".") .. ".b", dest)
    end
    trie.insert(t, "b.#", 601)
    local started = os.clock()
    local ok, message = pcall(match, t, ("a."):rep(127) .. "a")
    assert.is_true(os.clock() - started < 1)
    assert.is_false(ok)
    assert.matches("^the topic patterns take more than 100000 steps for the key 'a%.a", message)
    assert.same({ 601 }, match(t, "b.c"))
  end)

  it("agrees with the definition on random patterns, seed " .. seed, function()
    math.randomseed(seed)
    local alphabet = { "a", "b", "", "c" }
    local function text(wild)
      local words = {}
      for i = 1, math.random(0, 5) do
        local r = math.random()
        words[i] = wild and (r < 0.2 and "*" or r < 0.4 and "#") or
          alphabet[math.random(#alphabet)]
      end
      return table.concat(words, ".")
    end
    for _ = 1, 300 do
      local t, patterns = trie.new(), {}
      for dest = 1, math.random(1, 30) do
        repeat
          patterns[dest] = text(true)
        until pcall(trie.insert, t, patterns[dest], dest) -- no third hash
      end
      for dest = 1, #patterns do
        if math.random() < 0.3 then
          assert.is_true(trie.remove(t, patterns[dest], dest))
          patterns[dest] = false
        end
      end
      for _ = 1, 30 do
        local key, expected = text(false), {}
        for dest, pattern in ipairs(patterns) do
          if pattern and is_match(words_of(pattern), words_of(key)) then
            expected[#expected + 1] = dest
          end
        end
        assert.same(expected, match(t, key), ("key %q of seed %d"):format(key, seed))
      end
    end
  end)
end)
