-- fifo: no message overtakes another. Equal ranks are served in the order of arrival.

return {
  doc = "in the order of arrival",
  pure = true,

  rank = function()
    return 0
  end,
}
