-- tide.dests: a counted set of destinations. One that was added twice takes two removals.
--
-- The set is a list, because routing reads it in order. Most sets are short and are searched
-- from the start. A longer list has an index, so that changing a pattern shared by
-- thousands of queues takes constant time.

local M = {}

local INDEXED_FROM = 9 -- searching eight is quicker than creating an index

---@class tide.Dests
---@field n integer                            number of destinations
---@field [integer] integer                    the destinations, 1 to n
---@field place table<integer, integer>|nil    the position of each, in long lists
---@field again table<integer, integer>|nil    additional times that one was added

---@return tide.Dests
function M.new()
  return { n = 0 }
end

local function place_of(self, dest)
  if self.place then
    return self.place[dest]
  end
  for i = 1, self.n do
    if self[i] == dest then
      return i
    end
  end
end

local function make_index(self)
  self.place = {}
  for i = 1, self.n do
    self.place[self[i]] = i
  end
end

---@param self tide.Dests
---@param dest integer
function M.add(self, dest)
  if place_of(self, dest) then
    self.again = self.again or {}
    self.again[dest] = (self.again[dest] or 0) + 1
    return
  end
  local n = self.n + 1
  self.n, self[n] = n, dest
  if self.place then
    self.place[dest] = n
  elseif n == INDEXED_FROM then
    make_index(self)
  end
end

---@param self tide.Dests
---@param dest integer
---@return boolean  whether it was there
function M.remove(self, dest)
  local place, more = place_of(self, dest), self.again and self.again[dest]
  if not place then
    return false
  end
  if more then
    self.again[dest] = more > 1 and more - 1 or nil
    return true
  end
  -- The last one moves into the gap.
  local n = self.n
  local last = self[n]
  self.n, self[place] = n - 1, last
  self[n] = nil
  if self.place then
    self.place[last] = place
    self.place[dest] = nil
  end
  return true
end

---Call `to` once for each destination.
---@param self tide.Dests
---@param to fun(dest: integer)
function M.each(self, to)
  for i = 1, self.n do
    to(self[i])
  end
end

return M
