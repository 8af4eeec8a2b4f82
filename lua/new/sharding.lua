-- @NAME@: which shard of a queue holds a message. DECLARE queue q shards=4 sharding=@NAME@

return {
  doc = "messages with the same value of a header share a shard",
  options = {
    by = { type = "string", default = "customer", doc = "the header" },
  },

  -- A number from 0; the broker takes it modulo the number of shards.
  pick = function(msg, _, opts)
    return tide.hash(msg.headers[opts.by] or "")
  end,
}
