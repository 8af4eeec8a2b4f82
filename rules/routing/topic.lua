-- topic: patterns of words. `*` is one word (`orders.*.eu`), `#` any number (`orders.#`).

local trie = require "tide.topic_trie"
local match = trie.match -- read once: a module is a read-only view

local M = { pure = true, doc = "a pattern of words: * is one word, # any number" }

function M.new()
  return trie.new()
end

function M.bind(index, pattern, dest)
  trie.insert(index, pattern, dest)
end

function M.unbind(index, pattern, dest)
  trie.remove(index, pattern, dest)
end

function M.route(index, msg, to)
  match(index, msg.key, to)
end

return M
