-- exponential: each delay is longer than the one before: base, base*factor, base*factor^2, ...

return {
  doc = "after a delay that grows with each failure",
  options = {
    base = { type = "duration", default = "1s", doc = "delay after the first failure" },
    factor = { type = "number", default = 2, min = 1, doc = "factor from one delay to the next" },
    cap = { type = "duration", default = "10m", doc = "longest delay" },
    jitter = { type = "number", default = 0, min = 0, max = 1,
               doc = "random part of a delay: 0.2 gives 80 to 100 % of it" },
    max = { type = "integer", default = 20, min = 1,
            doc = "failures after which the message is dead-lettered" },
  },

  decide = function(_, failure, opts)
    if failure.failures >= opts.max then
      return tide.DEAD_LETTER
    end
    local delay = math.min(opts.base * opts.factor ^ (failure.failures - 1), opts.cap)
    return delay * (1 - opts.jitter * tide.random())
  end,
}
