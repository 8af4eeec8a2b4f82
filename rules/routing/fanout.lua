-- fanout: a message goes to every binding; its key is ignored.

local dests = require "tide.dests"
local each = dests.each -- read once: a module is a read-only view

local M = { pure = true, doc = "every binding" }

function M.new()
  return dests.new()
end

function M.bind(index, _, dest)
  dests.add(index, dest)
end

function M.unbind(index, _, dest)
  dests.remove(index, dest)
end

function M.route(index, _, to)
  each(index, to)
end

return M
