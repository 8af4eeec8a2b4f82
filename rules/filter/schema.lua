-- schema: a message must have certain headers, and a payload of a certain size.

-- A header and the pattern that its value must match; true: any value.
local HEADERS <const> = {
  ["content-type"] = "^application/json",
  tenant = true,
}
local SIZE_MIN <const> = 1
local SIZE_MAX <const> = 64 * 1024

return {
  doc = "require headers, and a payload of some size",
  -- match = { exchange = "orders", key = "#" },

  publish = function(msg)
    local headers, size = msg.headers, msg.size
    for name, pattern in pairs(HEADERS) do
      local value = headers[name]
      if not value then
        return false, "header " .. name .. " is missing"
      elseif pattern ~= true and not value:find(pattern) then
        return false, "header " .. name .. " is not like " .. pattern
      end
    end
    if size < SIZE_MIN or size > SIZE_MAX then
      return false, ("the payload has %d bytes; %d to %d are allowed"):format(
        size, SIZE_MIN, SIZE_MAX)
    end
  end,
}
