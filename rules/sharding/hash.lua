-- hash: messages with the same key, or the same value of a header, share a shard.

return {
  doc = "by the hash of the routing key or of a header",
  options = {
    by = { type = "string", default = "key",
           doc = "'key', or the name of a header" },
  },

  -- The shard of a key never changes, so the broker may cache it.
  pure = function(opts)
    return opts.by == "key"
  end,

  pick = function(msg, _, opts)
    local value = msg.key
    if opts.by ~= "key" then
      value = msg.headers[opts.by] or ""
    end
    return tide.hash(value)
  end,
}
