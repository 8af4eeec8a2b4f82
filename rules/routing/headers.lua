-- headers: a message goes to each binding whose values its headers have.
--
--   BIND eu-orders shop - region=eu kind=order                 both values
--   BIND alerts    shop - match=any level=error level2=fatal   any of them
--
-- The pattern is ignored. A binding without values takes every message with
-- match=all and no message with match=any.

local M = {
  doc = "the headers have the values of the binding",
  binding_options = {
    match = { type = "string", default = "all", choices = { "all", "any" },
              doc = "whether all values must match, or any" },
    ["*"] = { type = "string", doc = "a header and the value it must have" },
  },
}

-- The index has a list of bindings for each header and value. A binding with match=any is in
-- the lists of all its values. One with match=all is in the shortest of them, since a message
-- must have every value. So a message meets the bindings that want one of its values, and no
-- others. `first_of` finds the bindings of a destination, for unbind.
function M.new()
  return { first_of = {}, lists_of = {}, unconditional = { n = 0 }, step = 0 }
end

local function add(list, binding)
  local n = list.n + 1
  list.n, list[n] = n, binding
  binding.places[list] = n
end

local function list_of(index, name, value)
  local lists = index.lists_of[name] or {}
  local list = lists[value] or { n = 0, name = name, value = value }
  index.lists_of[name], lists[value] = lists, list
  return list
end

local function length_of(index, name, value)
  local lists = index.lists_of[name]
  local list = lists and lists[value]
  return list and list.n or 0
end

local function enter(index, binding)
  local name, shortest
  for other, value in pairs(binding.args) do
    local n = other ~= "match" and length_of(index, other, value)
    if n and binding.is_any then
      add(list_of(index, other, value), binding)
    elseif n and (not shortest or n < shortest) then
      name, shortest = other, n
    end
  end
  if not binding.is_any then
    add(name and list_of(index, name, binding.args[name]) or index.unconditional, binding)
  end
end

function M.bind(index, pattern, dest, args)
  local binding = {
    pattern = pattern, dest = dest, args = args, is_any = args.match == "any",
    places = {}, step = 0, next = index.first_of[dest],
  }
  enter(index, binding)
  index.first_of[dest] = binding
end

local function is_same(a, b)
  for name, value in pairs(a) do
    if b[name] ~= value then
      return false
    end
  end
  return true
end

local function drop(index, list)
  local lists = index.lists_of[list.name]
  lists[list.value] = nil
  if next(lists) == nil then
    index.lists_of[list.name] = nil
  end
end

-- The last binding of a list moves into the gap.
local function take_out(index, binding)
  for list, place in pairs(binding.places) do
    local last = list[list.n]
    list[place], last.places[list] = last, place
    list[list.n], list.n = nil, list.n - 1
    if list.n == 0 and list.name then
      drop(index, list)
    end
  end
end

function M.unbind(index, pattern, dest, args)
  local before, b = nil, index.first_of[dest]
  while b and not (b.pattern == pattern and is_same(b.args, args) and is_same(args, b.args)) do
    before, b = b, b.next
  end
  if not b then
    return
  end
  if before then
    before.next = b.next
  else
    index.first_of[dest] = b.next
  end
  take_out(index, b)
end

local function has_all(headers, args)
  for name, value in pairs(args) do
    if name ~= "match" and headers[name] ~= value then
      return false
    end
  end
  return true
end

-- The bindings of a list that match. One with match=any is found once, by whichever of its
-- values comes first.
local function try(list, headers, step, to)
  for i = 1, list.n do
    local binding = list[i]
    if not binding.is_any and has_all(headers, binding.args) or binding.is_any and binding.step ~= step then
      binding.step = step
      to(binding.dest)
    end
  end
end

function M.route(index, msg, to)
  local headers, lists_of = msg.headers, index.lists_of
  local step = index.step + 1
  index.step = step
  for name, value in pairs(headers) do
    local lists = lists_of[name]
    local list = lists and lists[value]
    if list then
      try(list, headers, step, to)
    end
  end
  try(index.unconditional, headers, step, to)
end

return M
