-- headers: a message goes to each binding whose values its headers have.
--
--   BIND eu-orders shop - h:region=eu h:kind=order            both values
--   BIND alerts    shop - x-match=any h:level=error h?fatal   the value, or a header `fatal`
--
-- `h:name=value` is a value that the header must have, `h?name` a header that must be there with
-- any value. An option of another name is a header with its value, too: region=eu.
-- x-match=all and x-match=any leave out conditions on headers that begin with `x-`, as RabbitMQ
-- does. all-with-x (the default) and any-with-x look at all of them.
-- The pattern is ignored. A binding without conditions takes every message when all must hold,
-- and no message when any must.

local find, sub = string.find, string.sub

local M = {
  doc = "the headers have the values of the binding",
  binding_options = {
    ["x-match"] = { type = "string", choices = { "all", "any", "all-with-x", "any-with-x" },
                    doc = "whether all conditions must hold, or any; without -with-x not those on x-..." },
    match = { type = "string", default = "all", choices = { "all", "any" },
              doc = "the older name: as x-match=all-with-x and any-with-x" },
    ["*"] = { type = "string", doc = "h:<header>=<value>, or h?<header>: it is there" },
  },
}

local MATCH <const> = { ["x-match"] = true, match = true }

-- The conditions by header: a value, or true when any value will do.
local function wants_of(args)
  local wants, mode = {}, args["x-match"] or args.match .. "-with-x"
  for option, value in pairs(args) do
    local mark = sub(option, 1, 2)
    local is_presence = mark == "h?"
    local name = (is_presence or mark == "h:") and sub(option, 3) or option
    if is_presence and value ~= "1" then
      error(("'h?%s' takes no value; a header with a value is 'h:%s=...'"):format(name, name), 0)
    elseif name == "" then
      error(("the name of the header is missing after '%s'"):format(mark), 0)
    elseif not MATCH[option] and wants[name] then
      error(("the header '%s' has two conditions"):format(name), 0)
    elseif not MATCH[option] then
      wants[name] = is_presence or value
    end
  end
  if not find(mode, "-with-x", 1, true) then
    for name in pairs(wants) do
      wants[name] = sub(name, 1, 2) ~= "x-" and wants[name] or nil
    end
  end
  return wants, sub(mode, 1, 3) == "any"
end

-- The index has a list of bindings for each condition: a header and its value, or true. A binding
-- of which any condition must hold is in the lists of all of them. One of which all must hold is
-- in the shortest list, since a message must meet every condition. So a message meets the bindings
-- that want one of its values, and no others. `first_of` finds the bindings of a destination, for
-- unbind.
function M.new()
  return { first_of = {}, lists_of = {}, unconditional = { n = 0 }, step = 0 }
end

local function add(list, binding)
  local n = list.n + 1
  list.n, list[n] = n, binding
  binding.places[list] = n
end

local function list_of(index, name, want)
  local lists = index.lists_of[name] or {}
  local list = lists[want] or { n = 0, name = name, want = want }
  index.lists_of[name], lists[want] = lists, list
  return list
end

local function length_of(index, name, want)
  local lists = index.lists_of[name]
  local list = lists and lists[want]
  return list and list.n or 0
end

local function enter(index, binding)
  local name, shortest
  for other, want in pairs(binding.wants) do
    local n = length_of(index, other, want)
    if binding.is_any then
      add(list_of(index, other, want), binding)
    elseif not shortest or n < shortest then
      name, shortest = other, n
    end
  end
  if not binding.is_any then
    add(name and list_of(index, name, binding.wants[name]) or index.unconditional, binding)
  end
end

function M.bind(index, pattern, dest, args)
  local wants, is_any = wants_of(args)
  local binding = {
    pattern = pattern, dest = dest, wants = wants, is_any = is_any,
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
  lists[list.want] = nil
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
  local wants, is_any = wants_of(args)
  local before, b = nil, index.first_of[dest]
  while b and not (b.pattern == pattern and b.is_any == is_any and is_same(b.wants, wants)
    and is_same(wants, b.wants)) do
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

local function has_all(headers, wants)
  for name, want in pairs(wants) do
    local value = headers[name]
    if value ~= want and (want ~= true or value == nil) then
      return false
    end
  end
  return true
end

-- The bindings of a list that match. One of which any condition must hold is found once, by
-- whichever comes first.
local function try(list, headers, step, to)
  for i = 1, list.n do
    local binding = list[i]
    if not binding.is_any and has_all(headers, binding.wants) or binding.is_any and binding.step ~= step then
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
    local with_value, present = lists and lists[value], lists and lists[true]
    if with_value then
      try(with_value, headers, step, to)
    end
    if present then
      try(present, headers, step, to)
    end
  end
  try(index.unconditional, headers, step, to)
end

return M
