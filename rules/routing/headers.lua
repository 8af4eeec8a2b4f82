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

-- The index is a list of bindings. `first_of` finds those of a destination, so removing
-- one of 100,000 bindings is as quick as removing one of ten.
function M.new()
  return { first_of = {} }
end

function M.bind(index, pattern, dest, args)
  local place = #index + 1
  local binding = {
    pattern = pattern, dest = dest, args = args, wanted = {},
    place = place, next = index.first_of[dest],
  }
  for name, value in pairs(args) do
    if name ~= "match" then
      binding.wanted[name] = value
    end
  end
  index[place], index.first_of[dest] = binding, binding
end

local function is_same(a, b)
  for name, value in pairs(a) do
    if b[name] ~= value then
      return false
    end
  end
  return true
end

-- The last binding moves into the gap.
local function take_out(index, binding)
  local last = index[#index]
  index[binding.place], last.place = last, binding.place
  index[#index] = nil
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

-- `all` stops at the first missing value, `any` at the first one present.
local function is_match(binding, headers)
  local is_any = binding.args.match == "any"
  for name, value in pairs(binding.wanted) do
    if (headers[name] == value) == is_any then
      return is_any
    end
  end
  return not is_any
end

function M.route(index, msg, to)
  local headers = msg.headers
  for _, binding in ipairs(index) do
    if is_match(binding, headers) then
      to(binding.dest)
    end
  end
end

return M
