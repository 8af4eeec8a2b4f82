-- due_time: in the order in which messages were due: their time and their delay, in
-- seconds. Priority decides between those that were due at about the same time: a point
-- is worth a hundredth of a second.

return {
  doc = "by publication time and delay; priority decides where they are close",

  rank = function(msg)
    return (msg.ts + msg.delay) / 1000 - msg.priority / 100
  end,
}
