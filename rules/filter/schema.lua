-- schema: a message must have certain headers, and a payload of a certain size.
--
--   return tide.use("schema", { match = { exchange = "orders" }, options = {
--     required = { "tenant" }, ["content-type"] = "^application/json", max_size = 65536 } })

return {
  doc = "require headers, and a payload of some size",
  options = {
    required = { type = "list", doc = "headers that must be there, with any value" },
    min_size = { type = "integer", default = 0, min = 0, doc = "of the payload, in bytes" },
    max_size = { type = "integer", default = 16777216, min = 0, doc = "of the payload, in bytes" },
    ["*"] = { doc = "a header, and the Lua pattern that is found in its value" },
  },

  new = function(opts)
    local patterns = {}
    for name, value in pairs(opts) do
      if name ~= "required" and name ~= "min_size" and name ~= "max_size" then
        string.find("", value) -- a wrong one is refused now
        patterns[name] = value
      end
    end
    return patterns
  end,

  publish = function(msg, opts, patterns)
    local headers, size = msg.headers, msg.size
    for _, name in ipairs(opts.required or {}) do
      if not headers[name] then
        return false, "header " .. name .. " is missing"
      end
    end
    for name, pattern in pairs(patterns) do
      local value = headers[name]
      if not value then
        return false, "header " .. name .. " is missing"
      elseif not value:find(pattern) then
        return false, "header " .. name .. " is not like " .. pattern
      end
    end
    if size < opts.min_size or size > opts.max_size then
      return false, ("the payload has %d bytes; %d to %d are allowed"):format(
        size, opts.min_size, opts.max_size)
    end
  end,
}
