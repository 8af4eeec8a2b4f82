-- A parcel that is packed is to be labelled, one that is labelled is to be shipped.
local NEXT <const> = { pack = "label", label = "ship" }
return {
  doc = "the next step of a parcel, when one is acknowledged",
  match = { queue = { "pack", "label" } },
  settled = function(msg, outcome)
    if outcome.event == "ack" then
      msg:copy { exchange = "-", key = NEXT[outcome.queue] }
    end
  end,
}
