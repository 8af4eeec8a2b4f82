-- due_time: messages go in the order in which they are due: publication plus delay, in
-- seconds. Priority decides between messages that are due at about the same time. A point
-- is worth a hundredth of a second.

return {
  doc = "by publication time and delay; priority decides where they are close",

  rank = function(msg)
    return (msg.ts + msg.delay) / 1000 - msg.priority / 100
  end,
}
