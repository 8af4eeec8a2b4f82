-- @NAME@: what follows a failure. DECLARE queue q retry=@NAME@ retry.delay=5s

return {
  doc = "the same delay a few times, then a person looks",
  options = {
    delay = { type = "duration", default = "10s", doc = "after each failure" },
    max = { type = "integer", default = 5, min = 1, doc = "failures after which the message is buried" },
  },

  -- A delay in ms, or tide.BURY, tide.DEAD_LETTER, tide.DROP.
  decide = function(_, failure, opts)
    if failure.failures >= opts.max then
      return tide.BURY
    end
    return opts.delay
  end,
}
