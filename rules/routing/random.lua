-- random: each message goes to one binding, any of them. Its key and the patterns are ignored.

local dests = require "tide.dests"

local M = { doc = "one binding at random" }

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
  if index.n > 0 then
    to(index[tide.random(index.n)])
  end
end

return M
