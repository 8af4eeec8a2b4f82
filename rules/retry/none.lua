-- none: one attempt. A message that fails is dead-lettered.

return {
  doc = "no second attempt: dead-lettered at once",

  decide = function(_, failure)
    -- An expired message may have no failure. The broker ignores a delay for it.
    return failure.failures == 0 and 0 or tide.DEAD_LETTER
  end,
}
