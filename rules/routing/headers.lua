-- headers: a message goes where its headers have the values of the binding.
--
--   BIND eu-orders shop - region=eu kind=order      both
--   BIND alerts    shop - match=any level=error level2=fatal
--
-- The pattern plays no part. A binding without values takes every message with
-- match=all, none with match=any.

local M = {
  doc = "the binding's values are those of the headers",
  binding_options = {
    match = { type = "string", default = "all", choices = { "all", "any" },
              doc = "whether all values or any one of them must be there" },
    ["*"] = { type = "string", doc = "a header and the value it must have" },
  },
}

function M.new()
  return {} -- a list of bindings: each message is held against each
end

function M.bind(index, pattern, dest, args)
  local binding = { pattern = pattern, dest = dest, args = args, wanted = {} }
  for name, value in pairs(args) do
    if name ~= "match" then
      binding.wanted[name] = value
    end
  end
  index[#index + 1] = binding
end

local function is_same(a, b)
  for name, value in pairs(a) do
    if b[name] ~= value then
      return false
    end
  end
  return true
end

function M.unbind(index, pattern, dest, args)
  for i, b in ipairs(index) do
    if b.pattern == pattern and b.dest == dest and is_same(b.args, args)
        and is_same(args, b.args) then
      table.remove(index, i)
      return
    end
  end
end

-- `all` ends at the first value that is missing, `any` at the first that is there.
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
