-- none: one attempt. A message that fails is dead-lettered.

return {
  doc = "no second attempt: dead-lettered at once",

  decide = function()
    return tide.DEAD_LETTER
  end,
}
