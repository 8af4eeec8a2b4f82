-- What one customer does is handled in order, whatever the routing key says.
return {
  doc = "the shard by the field 'customer' of the payload",
  pick = function(msg, n)
    local order = msg.json
    return tide.hash(order and order.customer or msg.key) % n
  end,
}
