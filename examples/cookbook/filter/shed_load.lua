-- When pictures pile up, those that can wait are refused. Who is urgent gets through.
return tide.use("shed", {
  match = { exchange = "pictures" },
  options = { queue = "resize", ready = 10000, keep = 5 },
})
