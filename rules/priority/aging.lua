-- aging: an urgent message overtakes messages that are a little older, and nothing waits
-- for ever. A point of priority is worth a step of age. By default a message of priority 3
-- overtakes messages of priority 0 that were published up to 30 seconds earlier.

return {
  doc = "the higher priority first, but age counts too",
  options = {
    step = { type = "duration", default = "10s", min = 1,
             doc = "head start for each point of priority" },
  },

  rank = function(msg, _, opts)
    return msg.ts - msg.priority * opts.step
  end,
}
