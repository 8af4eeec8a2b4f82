-- schedule: a delay of its own after each failure, as listed; then it is dead-lettered.

return {
  doc = "after the delays of a list, then dead-lettered",
  options = {
    delays = { type = "list", of = "duration", default = "1s,10s,1m,10m,1h",
               doc = "the delay after the first failure, after the second, ..." },
  },

  decide = function(_, failure, opts)
    -- A message whose consumer went away has not failed itself, and waits for none.
    if failure.failures == 0 then
      return 0
    end
    return opts.delays[failure.failures] or tide.DEAD_LETTER
  end,
}
