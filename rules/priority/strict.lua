-- strict: a message of higher priority goes before all messages of lower priority, even
-- before those that have waited for long.

return {
  doc = "the higher priority first, always",

  rank = function(msg)
    return -msg.priority
  end,
}
