-- content_route: a header or the payload selects another exchange or key.
--
--   return tide.use("content_route", { match = { exchange = "orders" },
--     options = { header = "region", pattern = "^eu", exchange = "orders-eu" } })
--
-- Several routes are several files. A message with a new exchange starts again at the first
-- filter that matches there; one that fits no route stays as it is.

return {
  doc = "reroute by a header or the payload",
  options = {
    header = { doc = "the header to look at; without it the payload" },
    pattern = { required = true, doc = "a Lua pattern that is found in it" },
    look_at = { type = "integer", default = 1024, min = 1, doc = "bytes of the payload" },
    exchange = { doc = "the new exchange" },
    key = { doc = "the new key" },
  },

  new = function(opts)
    assert(opts.exchange or opts.key, "content_route needs the option 'exchange' or 'key'")
    string.find("", opts.pattern) -- a wrong one is refused now
  end,

  publish = function(msg, opts)
    local text
    if opts.header then
      text = msg.headers[opts.header]
    else
      text = msg.payload:sub(1, opts.look_at)
    end
    if text and text:find(opts.pattern) then
      msg.exchange = opts.exchange or msg.exchange
      msg.key = opts.key or msg.key
    end
  end,
}
