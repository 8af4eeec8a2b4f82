-- @NAME@: which message of a queue is served first. DECLARE queue q priority=@NAME@
--
-- Lower ranks go first. Messages of the same rank keep their order.

return {
  doc = "high priorities first; a message that waits catches up",
  options = {
    step = { type = "duration", default = "1m", min = "1s", doc = "a wait that is worth one priority" },
  },

  rank = function(msg, _, opts)
    return msg.ts - msg.priority * opts.step
  end,
}
