-- strict: a message of higher priority goes before all of lower, however long
-- those have waited.

return {
  doc = "the higher priority first, always",

  rank = function(msg)
    return -msg.priority
  end,
}
