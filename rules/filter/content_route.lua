-- content_route: a header or the payload selects another exchange or key. The first route
-- that fits decides. A message that fits no route stays as it is.

-- header, pattern: the value must match the pattern. payload: a pattern for the first bytes.
-- exchange, key: the new address; a part that is missing stays.
local ROUTES <const> = {
  { header = "region", pattern = "^eu", exchange = "orders-eu" },
  { payload = '"urgent"%s*:%s*true', key = "orders.urgent" },
}
local LOOK_AT <const> = 1024 -- bytes of the payload

local function is_fit(route, msg)
  if route.header then
    local value = msg.headers[route.header]
    return value and value:find(route.pattern)
  end
  return msg.payload:sub(1, LOOK_AT):find(route.payload)
end

return {
  doc = "reroute by a header or the payload",
  -- match = { exchange = "orders", key = "#" },

  publish = function(msg)
    for _, route in ipairs(ROUTES) do
      if is_fit(route, msg) then
        msg.exchange = route.exchange or msg.exchange
        msg.key = route.key or msg.key
        return
      end
    end
  end,
}
