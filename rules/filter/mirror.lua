-- mirror: copies a share of the messages to another exchange, to try a new consumer on
-- real messages. The id selects the share: the answer for a message is always the same.
--
--   return tide.use("mirror", { match = { exchange = "orders" }, options = { to = "try" } })

return {
  doc = "copy a share of the messages to another exchange",
  options = {
    to = { default = "mirror", doc = "the exchange of the copies" },
    share = { type = "number", default = 0.1, min = 0, max = 1, doc = "of the messages" },
  },

  publish = function(msg, opts)
    -- A match for all exchanges sees the copy too.
    if msg.exchange == opts.to or tide.hash(msg.id) % 10000 >= opts.share * 10000 then
      return
    end
    msg:copy { exchange = opts.to, headers = { ["x-mirror-of"] = msg.id } }
  end,
}
