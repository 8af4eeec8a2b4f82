-- fixed: the same delay after each failure.

return {
  doc = "after the same delay each time",
  options = {
    delay = { type = "duration", default = "10s", doc = "delay after each failure" },
    max = { type = "integer", default = 20, min = 1,
            doc = "failures after which the message is dead-lettered" },
  },

  decide = function(_, failure, opts)
    if failure.failures >= opts.max then
      return tide.DEAD_LETTER
    end
    return opts.delay
  end,
}
