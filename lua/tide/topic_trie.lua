-- tide.topic_trie: finds the topic patterns that match a key, among any number of patterns.
--
-- The grammar is AMQP's. Dots separate the words of keys and patterns. In a pattern the
-- word `*` stands for exactly one word, `#` for zero or more. A word may be empty ("a..b" has
-- three). The empty key and the empty pattern have no words.
--
-- The patterns form a tree by their words. A match walks all paths of the tree at once,
-- word by word, with the set of nodes that the words so far lead to. A node enters this set
-- once per word, even if several paths lead to it. So each destination is found once for
-- each pattern, and no pattern (such as `#.a.#.a.#`) makes the walk longer than
-- (words of the key) x (nodes that match). A match allocates only the words of the key.
--
-- Patterns that are made for it can still have very many nodes that match. So a pattern has
-- `#` at most twice, and a match that takes more than STEPS_MAX steps is an error.

local dests = require "tide.dests"

local find, sub = string.find, string.sub
local add, remove, each = dests.add, dests.remove, dests.each

local M = {}

local MANY_MAX <const> = 2
local STEPS_MAX <const> = 100000 -- nodes that enter the set; 15 ms on a busy machine

---@class tide.TopicNode
---@field words table<string, tide.TopicNode>|nil
---@field one tide.TopicNode|nil   the child for `*`
---@field many tide.TopicNode|nil  the child for `#`
---@field loops boolean            this is a child for `#`: any word stays in it
---@field step integer             the step at which it last entered the set
---@field children integer
---@field dests tide.Dests|nil     of the patterns that end here

---@class tide.TopicTrie
---@field root tide.TopicNode
---@field step integer             counts the words of all keys
---@field current tide.TopicNode[]
---@field next tide.TopicNode[]

local function new_node(loops)
  return { loops = loops, step = 0, children = 0 }
end

---@return tide.TopicTrie
function M.new()
  return { root = new_node(false), step = 0, current = {}, next = {} }
end

local function check(words, pattern)
  local many = 0
  for _, word in ipairs(words) do
    many = many + (word == "#" and 1 or 0)
    if #word > 1 and find(word, "[*#]") then
      error(("in the topic pattern '%s' the word '%s' has a wildcard in it; '*' and '#' are words of their own")
        :format(pattern, word), 0)
    end
  end
  if many > MANY_MAX then
    error(("a topic pattern may have '#' %d times, not %d: '%s'"):format(MANY_MAX, many, pattern), 0)
  end
end

-- The words of a pattern. `#.#` becomes `#`, and `#.*` becomes `*.#`: patterns that mean the
-- same share a node.
local function words_of(pattern)
  local words, n, start = {}, 0, 1
  while start and pattern ~= "" do
    local dot = find(pattern, ".", start, true)
    local word = sub(pattern, start, dot and dot - 1)
    local is_after_many = n > 0 and words[n] == "#"
    if word == "*" and is_after_many then
      words[n], words[n + 1] = "*", "#"
      n = n + 1
    elseif not (word == "#" and is_after_many) then
      n = n + 1
      words[n] = word
    end
    start = dot and dot + 1
  end
  return words
end

local function child_of(node, word)
  if word == "*" then
    return node.one
  elseif word == "#" then
    return node.many
  end
  return node.words and node.words[word]
end

local function set_child(node, word, child)
  node.children = node.children + (child and 1 or -1)
  if word == "*" then
    node.one = child
  elseif word == "#" then
    node.many = child
  elseif node.words then
    node.words[word] = child
  else
    node.words = { [word] = child }
  end
end

---Raises an error for a pattern with a wildcard inside a word, or with too many `#`.
---@param self tide.TopicTrie
---@param pattern string
---@param dest integer
function M.insert(self, pattern, dest)
  local node, words = self.root, words_of(pattern)
  check(words, pattern)
  for _, word in ipairs(words) do
    local child = child_of(node, word)
    if not child then
      child = new_node(word == "#")
      set_child(node, word, child)
    end
    node = child
  end
  node.dests = node.dests or dests.new()
  add(node.dests, dest)
end

---Remove a pattern of `insert`, and the branches that then lead nowhere.
---@param self tide.TopicTrie
---@param pattern string
---@param dest integer
---@return boolean  whether it was there
function M.remove(self, pattern, dest)
  local words, path = words_of(pattern), { self.root }
  for i, word in ipairs(words) do
    path[i + 1] = child_of(path[i], word)
    if not path[i + 1] then
      return false
    end
  end
  local node = path[#path]
  if not node.dests or not remove(node.dests, dest) then
    return false
  end
  if node.dests.n == 0 then
    node.dests = nil
  end
  for i = #words, 1, -1 do
    local leaf = path[i + 1]
    if leaf.dests or leaf.children > 0 then
      break
    end
    set_child(path[i], words[i], nil)
  end
  return true
end

-- Put a node into the set, and the nodes that zero words of `#` lead to.
local function enter(set, n, node, step)
  while node and node.step ~= step do
    node.step = step
    n = n + 1
    set[n] = node
    node = node.many
  end
  return n
end

-- Fill `to` with the set after one more word.
local function advance(from, from_n, word, to, step)
  local n = 0
  for i = 1, from_n do
    local node = from[i]
    if node.loops then
      n = enter(to, n, node, step)
    end
    local words = node.words
    if words then
      n = enter(to, n, words[word], step)
    end
    n = enter(to, n, node.one, step)
  end
  return n
end

---Call `to` for the destinations of all patterns that match the key, once for each pattern
---and destination. Raises an error when the key takes more than STEPS_MAX steps.
---@param self tide.TopicTrie
---@param key string
---@param to fun(dest: integer)
function M.match(self, key, to)
  local current, following = self.current, self.next
  local step = self.step + 1
  local n = enter(current, 0, self.root, step)
  local start, steps = 1, n
  while start and n > 0 and key ~= "" and steps <= STEPS_MAX do
    local dot = find(key, ".", start, true)
    local word = sub(key, start, dot and dot - 1)
    step = step + 1
    n = advance(current, n, word, following, step)
    steps = steps + n
    current, following = following, current
    start = dot and dot + 1
  end
  self.step = step
  if steps > STEPS_MAX then
    error(("the topic patterns take more than %d steps for the key '%s'"):format(STEPS_MAX, key), 0)
  end
  for i = 1, n do
    local found = current[i].dests
    if found then
      each(found, to)
    end
  end
end

return M
