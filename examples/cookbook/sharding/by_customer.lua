-- Messages of one customer are handled in order, for any routing key.
return {
  doc = "the shard by the field 'customer' of the payload",
  pick = function(msg, n)
    local order = msg.json
    return tide.hash(order and order.customer or msg.key) % n
  end,
}
