-- When pictures pile up, those that can wait are refused. Urgent ones get through.
return tide.use("shed", {
  match = { exchange = "pictures" },
  options = { queue = "resize", ready = 10000, keep = 5 },
})
