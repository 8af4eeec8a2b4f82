-- @NAME@: what a consumer gets of a message. It is active for the queues that `match` names.

return {
  doc = "says who got the message",
  match = { queue = "@NAME@" },

  -- nothing: it is delivered; false, reason: not to this consumer; a delay: later.
  deliver = function(msg, consumer)
    msg.headers["delivered-to"] = consumer.user or "nobody" -- in this delivery alone
  end,
}
