-- none: one attempt; a message that fails is dead-lettered.

return {
  doc = "no second attempt: dead-lettered at once",

  decide = function(_, failure)
    -- A message whose consumer went away while it was at work on another has not been
    -- attempted.
    return failure.failures == 0 and 0 or tide.DEAD_LETTER
  end,
}
