-- aging: an urgent message goes before those that are a little older, but nothing waits
-- for ever. A point of priority is worth a step of age: with the default, a message of
-- priority 3 overtakes what was published up to 30 seconds before it with priority 0.

return {
  doc = "the higher priority first, but age counts too",
  options = {
    step = { type = "duration", default = "10s", min = 1,
             doc = "the head start that a point of priority gives" },
  },

  rank = function(msg, _, opts)
    return msg.ts - msg.priority * opts.step
  end,
}
