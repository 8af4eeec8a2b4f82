-- @NAME@: what follows when a message is settled. It is active for the queues that `match` names.

return {
  doc = "a message about each that is dead-lettered",
  match = { queue = "@NAME@" },

  settled = function(msg, outcome)
    if outcome.event == "dead-letter" then
      msg:copy { exchange = "-", key = "@NAME@.dead" }
    end
  end,
}
