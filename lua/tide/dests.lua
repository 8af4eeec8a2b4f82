-- tide.dests: a set of destinations, counted: adding one twice takes two removals.
--
-- Adding, removing and each step of the iteration take constant time, so that a
-- pattern which thousands of queues share costs no more to change than another.

local M = {}

---@class tide.Dests
---@field n integer   how many different destinations there are
---@field list integer[]
---@field place table<integer, integer>  where in `list` a destination is
---@field count table<integer, integer>  how often it was added

---@return tide.Dests
function M.new()
  return { n = 0, list = {}, place = {}, count = {} }
end

---@param self tide.Dests
---@param dest integer
function M.add(self, dest)
  if self.place[dest] then
    self.count[dest] = self.count[dest] + 1
    return
  end
  self.n = self.n + 1
  self.list[self.n] = dest
  self.place[dest] = self.n
  self.count[dest] = 1
end

---@param self tide.Dests
---@param dest integer
---@return boolean  whether it was there
function M.remove(self, dest)
  local place = self.place[dest]
  if not place then
    return false
  end
  if self.count[dest] > 1 then
    self.count[dest] = self.count[dest] - 1
    return true
  end
  -- The last one takes its place.
  local last = self.list[self.n]
  self.list[place], self.list[self.n] = last, nil
  self.place[last], self.place[dest] = place, nil
  self.count[dest] = nil
  self.n = self.n - 1
  return true
end

---Call `to` once for each destination.
---@param self tide.Dests
---@param to fun(dest: integer)
function M.each(self, to)
  local list = self.list
  for i = 1, self.n do
    to(list[i])
  end
end

return M
