-- schedule: each failure has its own delay in a list. After the last one the message is
-- dead-lettered.

return {
  doc = "after the delays of a list, then dead-lettered",
  options = {
    delays = { type = "list", of = "duration", default = "1s,10s,1m,10m,1h",
               doc = "delays after the first failure, the second, ..." },
  },

  decide = function(_, failure, opts)
    return opts.delays[failure.failures] or tide.DEAD_LETTER
  end,
}
