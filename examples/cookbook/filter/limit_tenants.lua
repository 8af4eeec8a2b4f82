-- No tenant publishes more than fifty messages a second; a short burst is fine.
return tide.use("rate_limit", {
  match = { exchange = "api" },
  options = { by = "tenant", rate = "50/s", burst = 100 },
})
