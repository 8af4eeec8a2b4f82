-- direct: a message goes to each binding whose pattern equals its routing key.

local dests = require "tide.dests"
local each = dests.each -- read once: a module is a read-only view

local M = { pure = true, doc = "the pattern is the routing key" }

function M.new()
  return {} -- sets of destinations, by pattern
end

function M.bind(index, pattern, dest)
  index[pattern] = index[pattern] or dests.new()
  dests.add(index[pattern], dest)
end

function M.unbind(index, pattern, dest)
  local found = index[pattern]
  if found and dests.remove(found, dest) and found.n == 0 then
    index[pattern] = nil
  end
end

function M.route(index, msg, to)
  local found = index[msg.key]
  if found then
    each(found, to)
  end
end

return M
