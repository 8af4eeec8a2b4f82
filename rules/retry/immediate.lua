-- immediate: tried again at once, until it has failed `max` times.

return {
  doc = "again at once",
  options = {
    max = { type = "integer", default = 20, min = 1,
            doc = "failures after which the message is dead-lettered" },
  },

  decide = function(_, failure, opts)
    if failure.failures >= opts.max then
      return tide.DEAD_LETTER
    end
    return 0
  end,
}
